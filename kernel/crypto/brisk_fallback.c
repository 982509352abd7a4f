// SPDX-License-Identifier: GPL-2.0-only
/*
 * cbc(aes) for QEMU's device "edu", by a driver that leaves small requests to
 * software, as drivers of real devices do.  brisk crypto explain is tested with
 * it.
 *
 *   insmod brisk_fallback.ko threshold=512
 *
 * threshold: bytes from which on the device takes part; it may be changed while
 * the driver is in use.
 *
 * The device cannot encrypt.  It raises an interrupt when it is told to, and the
 * driver waits for that before it ends a request of the threshold's size or
 * more.  The data are encrypted by the CPU in either case.
 */
#include <crypto/aes.h>
#include <crypto/internal/skcipher.h>
#include <linux/completion.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>

/* Registers of the device, see docs/specs/edu of QEMU. */
#define EDU_INTERRUPT_STATUS	0x24
#define EDU_INTERRUPT_RAISE	0x60
#define EDU_INTERRUPT_ACK	0x64

static uint threshold;
module_param(threshold, uint, 0644);
MODULE_PARM_DESC(threshold, "bytes from which on the device takes part");

static void __iomem *registers;
static DECLARE_COMPLETION(interrupted);
static DEFINE_MUTEX(edu_lock);

static irqreturn_t on_interrupt(int irq, void *data)
{
	u32 status = ioread32(registers + EDU_INTERRUPT_STATUS);

	if (!status)
		return IRQ_NONE;
	iowrite32(status, registers + EDU_INTERRUPT_ACK);
	complete(&interrupted);
	return IRQ_HANDLED;
}

static int use_device(void)
{
	unsigned long left;

	mutex_lock(&edu_lock);
	reinit_completion(&interrupted);
	iowrite32(1, registers + EDU_INTERRUPT_RAISE);
	left = wait_for_completion_timeout(&interrupted, 10 * HZ);
	mutex_unlock(&edu_lock);
	return left ? 0 : -EIO;
}

struct fallback_ctx {
	struct crypto_skcipher *software;
};

static int fallback_setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int length)
{
	struct fallback_ctx *ctx = crypto_skcipher_ctx(tfm);

	return crypto_skcipher_setkey(ctx->software, key, length);
}

static int fallback_crypt(struct skcipher_request *req, bool encrypt)
{
	struct fallback_ctx *ctx = crypto_skcipher_ctx(crypto_skcipher_reqtfm(req));
	struct skcipher_request *own = skcipher_request_ctx(req);
	int error;

	skcipher_request_set_tfm(own, ctx->software);
	skcipher_request_set_callback(own, req->base.flags, NULL, NULL);
	skcipher_request_set_crypt(own, req->src, req->dst, req->cryptlen, req->iv);
	error = encrypt ? crypto_skcipher_encrypt(own) : crypto_skcipher_decrypt(own);
	if (error || req->cryptlen < READ_ONCE(threshold) ||
	    !(req->base.flags & CRYPTO_TFM_REQ_MAY_SLEEP))
		return error;
	return use_device();
}

static int fallback_encrypt(struct skcipher_request *req)
{
	return fallback_crypt(req, true);
}

static int fallback_decrypt(struct skcipher_request *req)
{
	return fallback_crypt(req, false);
}

static int fallback_init(struct crypto_skcipher *tfm)
{
	struct fallback_ctx *ctx = crypto_skcipher_ctx(tfm);

	/* One that does not fall back itself, and is done when it returns. */
	ctx->software = crypto_alloc_skcipher("cbc(aes)", 0,
					      CRYPTO_ALG_ASYNC | CRYPTO_ALG_NEED_FALLBACK);
	if (IS_ERR(ctx->software))
		return PTR_ERR(ctx->software);
	crypto_skcipher_set_reqsize(tfm, sizeof(struct skcipher_request) +
				    crypto_skcipher_reqsize(ctx->software));
	return 0;
}

static void fallback_exit(struct crypto_skcipher *tfm)
{
	struct fallback_ctx *ctx = crypto_skcipher_ctx(tfm);

	crypto_free_skcipher(ctx->software);
}

static struct skcipher_alg algorithm = {
	.base.cra_name = "cbc(aes)",
	.base.cra_driver_name = "cbc-aes-brisk-fallback",
	.base.cra_priority = 5000,
	.base.cra_flags = CRYPTO_ALG_NEED_FALLBACK | CRYPTO_ALG_KERN_DRIVER_ONLY,
	.base.cra_blocksize = AES_BLOCK_SIZE,
	.base.cra_ctxsize = sizeof(struct fallback_ctx),
	.base.cra_module = THIS_MODULE,
	.min_keysize = AES_MIN_KEY_SIZE,
	.max_keysize = AES_MAX_KEY_SIZE,
	.ivsize = AES_BLOCK_SIZE,
	.setkey = fallback_setkey,
	.encrypt = fallback_encrypt,
	.decrypt = fallback_decrypt,
	.init = fallback_init,
	.exit = fallback_exit,
};

static int edu_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int error;

	/* The algorithm is one, and so is the device. */
	if (registers)
		return -EBUSY;
	error = pcim_enable_device(pdev);
	if (error)
		return error;
	error = pcim_iomap_regions(pdev, BIT(0), KBUILD_MODNAME);
	if (error)
		return error;
	pci_set_master(pdev);
	error = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_ALL_TYPES);
	if (error < 0)
		return error;
	registers = pcim_iomap_table(pdev)[0];
	error = request_irq(pci_irq_vector(pdev, 0), on_interrupt, IRQF_SHARED,
			    pci_name(pdev), pdev);
	if (error)
		goto no_interrupt;
	error = crypto_register_skcipher(&algorithm);
	if (error)
		goto no_algorithm;
	return 0;

no_algorithm:
	free_irq(pci_irq_vector(pdev, 0), pdev);
no_interrupt:
	registers = NULL;
	pci_free_irq_vectors(pdev);
	return error;
}

static void edu_remove(struct pci_dev *pdev)
{
	crypto_unregister_skcipher(&algorithm);
	free_irq(pci_irq_vector(pdev, 0), pdev);
	registers = NULL;
	pci_free_irq_vectors(pdev);
}

static const struct pci_device_id edu_ids[] = {
	{ PCI_DEVICE(0x1234, 0x11e8) },
	{ }
};
MODULE_DEVICE_TABLE(pci, edu_ids);

static struct pci_driver edu_driver = {
	.name = KBUILD_MODNAME,
	.id_table = edu_ids,
	.probe = edu_probe,
	.remove = edu_remove,
};
module_pci_driver(edu_driver);

MODULE_DESCRIPTION("cbc(aes) by QEMU's device edu, with software for small requests");
MODULE_LICENSE("GPL");
