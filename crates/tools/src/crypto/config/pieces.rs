//! Pieces of configuration for a consumer. Pure.

use super::obstacle::TO_KERNEL;
use super::openssl_cnf;
use super::{Question, names};
use crate::crypto::explain::{Route, Subject};
use crate::crypto::kernel::{Driver, chosen};
use crate::crypto::libcrypto::Library;
use crate::crypto::list::{Consumer, Place, Runs};
use crate::crypto::{Implementation, Kind};

/// A piece of configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// File that it goes to, or where else.
    pub place: String,
    /// Text, with comments that say why.
    pub text: String,
}

/// All pieces, with what is to be known of them.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pub(super) pieces: Vec<Piece>,
    pub(super) remarks: Vec<String>,
}

/// Permissions by which everybody may read and write.
const FOR_ALL: u32 = 0o006;

impl Pieces {
    fn add(&mut self, place: impl Into<String>, text: String) {
        self.pieces.push(Piece {
            place: place.into(),
            text,
        });
    }

    fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }
}

/// For what is worth it from `from` bytes on.
pub(super) fn of(question: &Question<'_>, from: u64) -> Pieces {
    let Some(offload) = question.offload else {
        return Pieces::default();
    };
    let mut made = Pieces::default();
    match (question.route, offload, &question.machine.library) {
        (Route::Openssl, Implementation::Engine(name), Ok(library)) => {
            engine(question, library, name, from, &mut made);
        }
        (Route::Openssl, Implementation::Provider(name), Ok(library)) => {
            let text = openssl_cnf::provider(library, name, &comment(question, &worth(from)));
            made.add(openssl_cnf::FILE, text);
            in_use(question, library, &mut made);
            made.remark(format!(
                "?provider={name} prefers the provider for all that it has, for data of any size: \
                 OpenSSL has no threshold of size."
            ));
        }
        (Route::Kernel(consumer), _, _) => kernel(question, consumer, offload, from, &mut made),
        _ => {}
    }
    made
}

fn worth(from: u64) -> String {
    format!("worth it from {from} bytes on")
}

/// For what is not worth it: where the consumer gets the offload's driver without asking for it, what
/// leaves the driver out.
pub(super) fn against(question: &Question<'_>) -> Pieces {
    let mut made = Pieces::default();
    let Route::Kernel(consumer) = question.route else {
        return made;
    };
    let subject = Subject::new(question.machine, question.algorithm, question.route);
    let name = question.offload.and_then(driver);
    let chosen = subject.choice().filter(|chosen| {
        let is_on_device =
            Runs::of(chosen, &question.machine.kernel.modules).place == Place::Device;
        is_on_device && name.is_none_or(|name| name == chosen.driver)
    });
    let Some(chosen) = chosen.filter(|chosen| chosen.module != BUILT_IN) else {
        return made;
    };
    let comment = comment(question, "not worth it");
    made.add(
        "/etc/modprobe.d/brisk-crypto.conf",
        format!(
            "{comment}# {} gets this driver by its priority, {}, as long as the module is loaded.\n\
             blacklist {}\n",
            consumer.name(),
            chosen.priority,
            chosen.module
        ),
    );
    made.remark(format!(
        "It leaves out all that {} does, for all consumers. Write the initramfs anew after it \
         (update-initramfs -u, dracut --force), and restart: a driver that is in use stays.",
        chosen.module
    ));
    made
}

/// Module of drivers that are built into the kernel.
const BUILT_IN: &str = "kernel";

/// The name of a driver that an implementation asks for.
fn driver(implementation: &Implementation) -> Option<&str> {
    match implementation {
        Implementation::Driver(name) | Implementation::DmCrypt(Some(name)) => Some(name),
        _ => None,
    }
}

/// Why, as comments of a file.
fn comment(question: &Question<'_>, worth: &str) -> String {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = format!(
        "# {} with {}: {worth}, by {}.\n",
        question.algorithm.name,
        question
            .offload
            .map_or_else(String::new, ToString::to_string),
        names(question.by.metrics())
    );
    for reason in question
        .compared
        .iter()
        .filter(|one| question.by.metrics().contains(&one.metric))
    {
        let sentence = one_line(&reason.crossover.sentence(reason.metric));
        text.push_str(&format!("# {sentence}\n"));
    }
    text.push_str(&format!(
        "# Measured: {}.\n",
        one_line(&question.facts.source)
    ));
    text
}

fn engine(question: &Question<'_>, library: &Library, name: &str, from: u64, made: &mut Pieces) {
    let comment = comment(question, &worth(from));
    let head = format!("{comment}# An engine: OpenSSL 4 has none any more.\n");
    let text = openssl_cnf::engine(library, name, question.algorithm, &head);
    made.add(openssl_cnf::FILE, text);
    in_use(question, library, made);
    match name {
        "afalg" => {
            made.remark(
                "afalg has no threshold of size: smaller data goes to the device, too. Use it for \
                 programs alone whose data is larger.",
            );
            made.remark(
                "afalg takes what the kernel prefers for the algorithm, now and after every update.",
            );
        }
        "devcrypto" => {
            made.remark(
                "devcrypto has no threshold of size. Drivers in software are left out by its \
                 default, USE_SOFTDRIVERS = 2.",
            );
            made.add(
                "/etc/modules-load.d/brisk-crypto.conf",
                format!("{comment}# For /dev/crypto.\ncryptodev\n"),
            );
            let is_open = question
                .cryptodev_mode
                .is_some_and(|mode| mode & FOR_ALL == FOR_ALL);
            if !is_open {
                made.add(
                    "/etc/udev/rules.d/60-brisk-crypto.rules",
                    format!(
                        "{comment}# Programs that are not root's open it as the group crypto, which \
                         groupadd --system crypto makes.\n\
                         KERNEL==\"crypto\", SUBSYSTEM==\"misc\", GROUP=\"crypto\", MODE=\"0660\"\n"
                    ),
                );
            }
        }
        _ if !TO_KERNEL.contains(&name) => made.remark(format!(
            "Whether {name} leaves small data to software is told by its own documentation: a \
             threshold there should be {from} bytes."
        )),
        _ => {}
    }
}

/// How a file for `OPENSSL_CONF` comes into use.
fn in_use(question: &Question<'_>, library: &Library, made: &mut Pieces) {
    let file = openssl_cnf::FILE;
    let own = library.configuration_path.as_ref();
    let own = own.map_or("openssl.cnf".into(), |path| path.display().to_string());
    made.remark(format!(
        "Give it to a program by OPENSSL_CONF={file}, for a service by Environment=OPENSSL_CONF={file} \
         of its unit; or append all but the line .include to {own}, for all programs."
    ));
    if question.route == Route::Openssl {
        made.remark(format!(
            "Prove it before: brisk crypto config {} --check {file}. OpenSSL goes on \
             without what it cannot load; with config_diagnostics = 1 programs do not start without \
             an engine.",
            question.algorithm.name
        ));
    }
}

fn kernel(
    question: &Question<'_>,
    consumer: Consumer,
    offload: &Implementation,
    from: u64,
    made: &mut Pieces,
) {
    let name = driver(offload);
    let comment = comment(question, &worth(from));
    threshold(question, name, from, &comment, made);
    match (consumer, name) {
        (Consumer::DmCrypt, Some(name)) => {
            module(question, name, &comment, made);
            dm_crypt(question, name, &comment, made);
        }
        (Consumer::AfAlg, Some(name)) => {
            module(question, name, &comment, made);
            af_alg(question, name, from, made);
        }
        (Consumer::Ktls, _) => ktls(question, &comment, made),
        _ => made.remark(format!(
            "There is nothing to configure: {} takes what the kernel prefers for {}, and that is \
             the driver of the device.",
            consumer.name(),
            question.algorithm.kernel
        )),
    }
    let is_elsewhere = matches!(
        (consumer, offload),
        (
            Consumer::DmCrypt | Consumer::Ktls,
            Implementation::AfAlg | Implementation::Driver(_)
        ) | (Consumer::Fscrypt | Consumer::Ipsec, _)
    );
    if is_elsewhere {
        made.remark(format!(
            "It was measured through AF_ALG, and {} has costs of its own.",
            consumer.name()
        ));
    }
}

/// Module of a driver; none if it is built in.
fn module_of<'a>(question: &Question<'a>, name: &str) -> Option<&'a str> {
    let drivers = question.machine.kernel.drivers.iter().flatten();
    let of_name = |driver: &&Driver| driver.driver == name;
    let module = drivers.into_iter().find(of_name).map(|it| &*it.module);
    module.filter(|module| *module != BUILT_IN)
}

/// A driver that leaves small data to software from a size on that can be set.
struct Threshold {
    module: &'static str,
    /// Driver of its device, as udev has it.
    device: &'static str,
    /// Attribute of the device with the size in bytes.
    attribute: &'static str,
    /// Bytes without a setting.
    default: u64,
}

/// From `drivers/crypto/omap-aes.c` of the kernel.
const THRESHOLDS: [Threshold; 1] = [Threshold {
    module: "omap_aes_driver",
    device: "omap-aes",
    attribute: "fallback",
    default: 200,
}];

/// The size from which on the driver uses its device, where it can be set.
fn threshold(
    question: &Question<'_>,
    name: Option<&str>,
    from: u64,
    comment: &str,
    made: &mut Pieces,
) {
    let module = name.and_then(|name| module_of(question, name));
    let known = THRESHOLDS.iter().find(|it| Some(it.module) == module);
    if let Some(known) = known {
        made.add(
            "/etc/udev/rules.d/60-brisk-crypto.rules",
            format!(
                "{comment}# The driver leaves less than this to software; {} bytes without it.\n\
                 ACTION==\"bind\", SUBSYSTEM==\"platform\", DRIVER==\"{}\", ATTR{{{}}}=\"{from}\"\n",
                known.default, known.device, known.attribute
            ),
        );
    }
}

/// A driver that is asked for by its name is not loaded for that.
fn module(question: &Question<'_>, name: &str, comment: &str, made: &mut Pieces) {
    if let Some(module) = module_of(question, name) {
        made.add(
            "/etc/modules-load.d/brisk-crypto.conf",
            format!(
                "{comment}# A driver is not loaded when it is asked for by its name, {name}.\n\
                 {module}\n"
            ),
        );
    }
}

/// Driver of SHA-256 that the kernel prefers.
fn digest<'a>(question: &Question<'a>) -> &'a str {
    let drivers = question.machine.kernel.drivers.iter().flatten();
    let named = drivers.filter(|driver| driver.name == "sha256");
    chosen(named).map_or("sha256-generic", |driver| &driver.driver)
}

fn dm_crypt(question: &Question<'_>, name: &str, comment: &str, made: &mut Pieces) {
    let algorithm = question.algorithm;
    let mode = algorithm.kernel.split('(').next().unwrap_or_default();
    // With a predictable vector CBC shows where blocks are equal. The digest needs the name of its
    // driver, too: "essiv(DRIVER,sha256)" is found once only, and luksFormat fails when it asks for
    // it again (EEXIST).
    let vector = match mode {
        "cbc" => format!("essiv:{}", digest(question)),
        _ => "plain64".to_owned(),
    };
    let bits = algorithm.key * 8;
    made.add(
        "command, on a disk that is made anew: it destroys what DEVICE has",
        format!(
            "{comment}# capi: names the driver; without it dm-crypt chooses by priority.\n\
             # Each sector is an operation: the largest, 4096 bytes, is the best for a device.\n\
             # If the driver is missing, the disk cannot be opened.\n\
             cryptsetup luksFormat --type luks2 --cipher 'capi:{name}-{vector}' --key-size {bits} \
             --sector-size 4096 DEVICE\n"
        ),
    );
    made.remark(
        "For the root file system the initramfs needs the module, too: /etc/initramfs-tools/modules, \
         or add_drivers of dracut.",
    );
    made.remark(
        "Leave --perf-no_read_workqueue and --perf-no_write_workqueue away unless they are measured \
         with this driver: with them dm-crypt encrypts where the request comes, without its queues.",
    );
}

fn af_alg(question: &Question<'_>, name: &str, from: u64, made: &mut Pieces) {
    let kind = match question.algorithm.kind {
        Kind::Cipher => "skcipher",
        Kind::Aead => "aead",
        Kind::Hash => "hash",
    };
    made.add(
        "source of the program",
        format!(
            "/* The driver by its name: by the name of the algorithm the kernel chooses by priority.\n\
             \x20  Data of less than {from} bytes is better left to software. */\n\
             struct sockaddr_alg address = {{\n\
             \x20   .salg_family = AF_ALG,\n\
             \x20   .salg_type = \"{kind}\",\n\
             \x20   .salg_name = \"{name}\",\n\
             }};\n"
        ),
    );
}

fn ktls(question: &Question<'_>, comment: &str, made: &mut Pieces) {
    made.add(
        "/etc/modules-load.d/brisk-crypto.conf",
        format!("{comment}# OpenSSL does not load the module for kTLS.\ntls\n"),
    );
    match &question.machine.library {
        Ok(library) => {
            made.add(openssl_cnf::FILE, openssl_cnf::ktls(library, comment));
            in_use(question, library, made);
        }
        Err(_) => made.remark("Programs with OpenSSL use kTLS by Options = KTLS in openssl.cnf."),
    }
    made.remark(
        "Proof is in /proc/net/tls_stat: TlsTxSw counts connections that the kernel encrypts.",
    );
}
