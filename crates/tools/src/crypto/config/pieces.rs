//! Pieces of configuration for a consumer. Pure.

use super::obstacle::TO_KERNEL;
use super::openssl_cnf;
use super::{Question, names};
use crate::crypto::explain::Route;
use crate::crypto::kernel::Driver;
use crate::crypto::libcrypto::Library;
use crate::crypto::list::Consumer;
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
            let text = openssl_cnf::provider(library, name, &comment(question, from));
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

/// Why, as comments of a file.
fn comment(question: &Question<'_>, from: u64) -> String {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = format!(
        "# {} with {}: worth it from {from} bytes on, by {}.\n",
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
    let comment = comment(question, from);
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
    let name = match offload {
        Implementation::Driver(name) | Implementation::DmCrypt(Some(name)) => Some(&**name),
        _ => None,
    };
    let comment = comment(question, from);
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

/// A driver that is asked for by its name is not loaded for that.
fn module(question: &Question<'_>, name: &str, comment: &str, made: &mut Pieces) {
    let drivers = question.machine.kernel.drivers.iter().flatten();
    let of_name = |driver: &&Driver| driver.driver == name;
    let module = drivers.into_iter().find(of_name).map(|it| &*it.module);
    if let Some(module) = module.filter(|module| *module != "kernel") {
        made.add(
            "/etc/modules-load.d/brisk-crypto.conf",
            format!(
                "{comment}# A driver is not loaded when it is asked for by its name, {name}.\n\
                 {module}\n"
            ),
        );
    }
}

fn dm_crypt(question: &Question<'_>, name: &str, comment: &str, made: &mut Pieces) {
    let algorithm = question.algorithm;
    let mode = algorithm.kernel.split('(').next().unwrap_or_default();
    // With a predictable vector CBC shows where blocks are equal.
    let vector = match mode {
        "cbc" => "essiv:sha256",
        _ => "plain64",
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
