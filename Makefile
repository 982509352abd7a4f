# make demo, make test: each sets up what it needs, see setup/install.
#
# GNU make. CARGO_TARGET_DIR is respected.

# rustup's cargo goes before the distribution's, which may be too old, as in setup/install.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

CARGO     ?= cargo
TARGET    := $(or $(CARGO_TARGET_DIR),target)
BRISK     := $(TARGET)/release/brisk

PREFIX    ?= /usr/local
DESTDIR   ?=
BINDIR    ?= $(PREFIX)/bin
MANDIR    ?= $(PREFIX)/share/man
DOCDIR    ?= $(PREFIX)/share/doc/brisk
BASHDIR   ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR    ?= $(PREFIX)/share/zsh/site-functions
FISHDIR   ?= $(PREFIX)/share/fish/vendor_completions.d
UNITDIR   ?= $(PREFIX)/lib/systemd/system
UNITS     := brisk-vms.service brisk-reboot.service brisk-reboot-early.service
# A brisk that is built already, to install in place of a release build.
PREBUILT  ?=

# Where setup/install puts a newer QEMU and virtiofsd on Debian 12; the tests find them by PATH.
TOOLS     := $(or $(BRISK_TOOLS_DIR),$(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)/lib/brisk)
WITHTOOLS := PATH='$(TOOLS)/bin':"$$PATH"
# What is tried once more with the system's own QEMU, where that is another one; the rest of it is for
# make soak.
AGAIN     := dry_run exit_status roots streams vm
ONCE_MORE := arguments disks failures vm_seen

.PHONY: help build demo test soak kernel check bench bench-pages pages install uninstall deb book clean

help:
	@echo 'make demo      set up, build, and run a kernel in a second'
	@echo 'make test      set up, and run all tests'
	@echo 'make soak      set up, and let VMs go through what may lose them, for an hour'
	@echo 'make build     only build $(BRISK)'
	@echo 'make kernel    build a Linux 6.12 with kernel text replication; see kernel/ktext'
	@echo 'make check     formatting, lints, licences, generated files'
	@echo 'make bench     measure; see benchmarks/'
	@echo 'make bench-pages  pages and pictures of the reports in benchmarks/'
	@echo 'make install   to PREFIX=$(PREFIX), below DESTDIR'
	@echo 'make deb       a Debian package'
	@echo 'make book      the manual as HTML, with mdbook'
	@echo 'make clean     remove what was built'

build:
	$(CARGO) build --release --locked

demo:
	setup/install demo
	$(CARGO) build --release --locked
	BRISK='$(BRISK)' examples/demo

test:
	setup/install test
	@# Exit status 3: it cannot be built here, and the tests of it are ignored with that reason.
	setup/ktext-kernel '$(TOOLS)' || [ $$? = 3 ]
	setup/reboot-machine '$(TOOLS)' || [ $$? = 3 ]
	@# xtask makes the package's manual pages; with tests, so that nothing is compiled twice.
	$(CARGO) build --workspace --locked --bins --tests
	$(WITHTOOLS) $(CARGO) test --workspace --locked --no-fail-fast
	@if [ -x '$(TOOLS)/bin/qemu-system-x86_64' ]; then \
		echo 'once more, with the QEMU of the system:'; set -x; \
		BRISK_TOOLS_DIR=/nonexistent $(CARGO) test --workspace --locked \
			$(addprefix --test ,$(AGAIN)); fi

# The same tests for longer: BRISK_SOAK=2 for twice as long, and so on.
soak: export BRISK_SOAK ?= 1
soak:
	setup/install test
	setup/reboot-machine '$(TOOLS)'
	setup/ktext-kernel '$(TOOLS)'
	@# xtask makes the package's manual pages; with tests, so that nothing is compiled twice.
	$(CARGO) build --workspace --locked --bins --tests
	$(WITHTOOLS) $(CARGO) test --workspace --locked \
		--test vm_survives --test vm_postcopy --test vm_load --test vm_targets --test warm \
		--test reboot_machine --test ktext_kernel
	BRISK_TOOLS_DIR=/nonexistent $(CARGO) test --workspace --locked \
		$(addprefix --test ,$(ONCE_MORE))

# setup/install test installs what compiles a kernel.
kernel:
	setup/install test
	setup/ktext-kernel '$(TOOLS)'

check:
	$(CARGO) fmt --all --check
	@# The guest's program and the fuzz targets are no targets of this workspace.
	rustfmt --check --edition 2024 guest/init/src/main.rs guest/xstate/src/preload.rs fuzz/fuzz_targets/*.rs
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) xtask check
	$(CARGO) xtask structure
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		set -x; $(CARGO) deny --offline check licenses bans sources; \
	else echo 'cargo-deny is not installed: licences are not checked'; fi
	@if command -v shellcheck >/dev/null; then \
		set -x; shellcheck .ci/run setup/install setup/newer-qemu setup/general-kernels \
			setup/newer-openssl setup/fallback-module setup/reboot-machine setup/ktext-kernel \
			packaging/build-deb packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm \
			examples/demo examples/kured-reboot \
			crates/cli/tests/vm_load.sh; \
	else echo 'shellcheck is not installed: scripts are not checked'; fi
	@if command -v typos >/dev/null; then set -x; typos; \
	else echo 'typos is not installed: spelling is not checked'; fi

bench: build
	@if [ -x benchmarks/run ]; then BRISK='$(BRISK)' benchmarks/run; \
	else echo 'there is no benchmarks/run yet' >&2; exit 1; fi

bench-pages:
	$(CARGO) run --quiet --locked --package xtask -- bench-pages --out '$(TARGET)/benchmarks'

# Makes manual pages and completions from the command line itself. Not `cargo xtask`: the release
# profile shares what `build` has compiled.
XTASK     ?= $(CARGO) run --quiet --release --locked --package xtask --

pages:
	rm -rf '$(TARGET)/man' '$(TARGET)/completions'
	$(XTASK) man '$(TARGET)/man'
	$(XTASK) completions '$(TARGET)/completions'

# One after the other: cargo would only wait for itself.
install: $(if $(PREBUILT),,build)
	$(MAKE) --no-print-directory pages
	install -d '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(MANDIR)/man1' '$(DESTDIR)$(DOCDIR)' \
		'$(DESTDIR)$(BASHDIR)' '$(DESTDIR)$(ZSHDIR)' '$(DESTDIR)$(FISHDIR)' \
		'$(DESTDIR)$(UNITDIR)'
	install -m 0755 '$(or $(PREBUILT),$(BRISK))' '$(DESTDIR)$(BINDIR)/brisk'
	install -m 0644 '$(TARGET)'/man/*.1 '$(DESTDIR)$(MANDIR)/man1/'
	install -m 0644 README.md CHANGELOG.md '$(DESTDIR)$(DOCDIR)/'
	install -m 0644 '$(TARGET)/completions/brisk.bash' '$(DESTDIR)$(BASHDIR)/brisk'
	install -m 0644 '$(TARGET)/completions/_brisk' '$(DESTDIR)$(ZSHDIR)/_brisk'
	install -m 0644 '$(TARGET)/completions/brisk.fish' '$(DESTDIR)$(FISHDIR)/brisk.fish'
	for unit in $(UNITS); do \
		sed 's|@BINDIR@|$(BINDIR)|' "packaging/$$unit.in" >"$(TARGET)/$$unit" && \
		install -m 0644 "$(TARGET)/$$unit" "$(DESTDIR)$(UNITDIR)/$$unit" || exit 1; done
	install -d '$(DESTDIR)$(PREFIX)/lib/brisk'
	install -m 0755 setup/newer-qemu '$(DESTDIR)$(PREFIX)/lib/brisk/newer-qemu'
	install -m 0644 setup/newer-qemu.packages '$(DESTDIR)$(PREFIX)/lib/brisk/newer-qemu.packages'
	@if [ -z '$(DESTDIR)' ]; then \
		echo 'No service is enabled. For brisk reboot, which arms no watchdog without them:'; \
		echo '    systemctl daemon-reload'; \
		echo '    systemctl enable --now brisk-reboot.service brisk-reboot-early.service'; \
		echo 'For VMs that start and stop with this host:'; \
		echo '    systemctl enable --now brisk-vms.service'; fi

uninstall:
	rm -f '$(DESTDIR)$(BINDIR)/brisk' '$(DESTDIR)$(MANDIR)'/man1/brisk.1 \
		'$(DESTDIR)$(MANDIR)'/man1/brisk-*.1 '$(DESTDIR)$(DOCDIR)/README.md' \
		'$(DESTDIR)$(DOCDIR)/CHANGELOG.md' '$(DESTDIR)$(BASHDIR)/brisk' \
		'$(DESTDIR)$(ZSHDIR)/_brisk' '$(DESTDIR)$(FISHDIR)/brisk.fish' \
		$(UNITS:%='$(DESTDIR)$(UNITDIR)/%') \
		'$(DESTDIR)$(PREFIX)'/lib/brisk/newer-qemu*

deb:
	MAKE='$(MAKE)' packaging/build-deb '$(TARGET)/debian'

book:
	@if command -v mdbook >/dev/null; then set -x; mdbook build docs; \
	else echo 'mdbook is not installed; the chapters in docs/src can be read as they are' >&2; \
		exit 1; fi

clean:
	$(CARGO) clean
	rm -rf docs/book
