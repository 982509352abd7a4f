// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boots a kernel from the running one, by kexec.
 *
 *   again KERNEL INITRAMFS COMMAND_LINE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int kernel, initramfs;

	if (argc != 4) {
		fprintf(stderr, "usage: again KERNEL INITRAMFS COMMAND_LINE\n");
		return 2;
	}
	kernel = open(argv[1], O_RDONLY);
	initramfs = open(argv[2], O_RDONLY);
	if (kernel < 0 || initramfs < 0) {
		perror("again: open");
		return 1;
	}
	if (syscall(SYS_kexec_file_load, kernel, initramfs, strlen(argv[3]) + 1,
		    argv[3], 0UL)) {
		perror("again: kexec_file_load");
		return 1;
	}
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_KEXEC, NULL);
	perror("again: reboot");
	return 1;
}
