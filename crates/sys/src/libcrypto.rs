//! Ciphers of a libcrypto that is loaded while the program runs: OpenSSL 1.1 to 4 and their kin.
#![expect(unsafe_code, reason = "functions of a C library that is loaded")]

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;

use libloading::os::unix::{Library, Symbol};

/// `OPENSSL_INIT_LOAD_CONFIG`: reads `openssl.cnf`, or what `OPENSSL_CONF` names.
const LOAD_CONFIG: u64 = 0x40;
/// `EVP_CTRL_AEAD_SET_IVLEN`, `EVP_CTRL_AEAD_GET_TAG` and `EVP_CTRL_AEAD_SET_TAG`.
const SET_IV_LENGTH: c_int = 0x9;
const GET_TAG: c_int = 0x10;
const SET_TAG: c_int = 0x11;
/// Bytes by which an output may be longer than its input: a block, and some to spare.
const MORE: usize = 64;

/// Reason why a library did not do an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CipherError {
    /// It cannot be asked: it cannot be loaded, or lacks functions.
    Unable(String),
    /// It can be asked, and does not have the cipher, provider or engine.
    Lacks(String),
    /// It has the cipher, and a step of the operation failed.
    Failed(String),
    /// It decrypted, and does not accept the tag.
    Forged(String),
}

/// Part of the library that is to do an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    /// Whatever the library and its configuration choose.
    Chosen,
    /// A provider of OpenSSL 3 or later, by its name.
    Provider(&'a str),
    /// An engine of OpenSSL before 4, by its name.
    Engine(&'a str),
}

/// An operation of a cipher.
#[derive(Debug, Clone, Copy)]
pub struct CipherOperation<'a> {
    /// Name of the cipher, such as `aes-128-gcm`.
    pub cipher: &'a str,
    /// Part of the library that does it.
    pub source: Source<'a>,
    /// Key, of the cipher's length.
    pub key: &'a [u8],
    /// Initialisation vector or nonce.
    pub iv: &'a [u8],
    /// Associated data; empty for none.
    pub associated: &'a [u8],
    /// Plaintext, or ciphertext without its tag.
    pub input: &'a [u8],
    /// Direction, and the tag.
    pub tag: Tag<'a>,
}

/// Direction of an operation, and what becomes of the authentication tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag<'a> {
    /// Encrypts; so many bytes of tag come after the ciphertext, 0 for a cipher that has none.
    Make(usize),
    /// Decrypts, and checks this tag; an empty one for a cipher that has none.
    Check(&'a [u8]),
}

type Init = unsafe extern "C" fn(u64, *const c_void) -> c_int;
type Fetch = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
type ByName = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type New = unsafe extern "C" fn() -> *mut c_void;
type Number = unsafe extern "C" fn(*const c_void) -> c_int;
type LoadProvider = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type CipherInit = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *mut c_void,
    *const u8,
    *const u8,
    c_int,
) -> c_int;
type Control = unsafe extern "C" fn(*mut c_void, c_int, c_int, *mut c_void) -> c_int;
type Update = unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_int, *const u8, c_int) -> c_int;
type Final = unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_int) -> c_int;
type SetPadding = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type Clear = unsafe extern "C" fn();
type Error = unsafe extern "C" fn() -> c_ulong;
type Describe = unsafe extern "C" fn(c_ulong, *mut c_char, usize);

/// A libcrypto that is loaded. It stays so until the process ends: threads of providers, and what it
/// has registered for the end of the process, go on to use it.
pub struct Libcrypto {
    library: ManuallyDrop<Library>,
    new: Symbol<New>,
    free: Symbol<Free>,
    init: Symbol<CipherInit>,
    control: Symbol<Control>,
    update: Symbol<Update>,
    finish: Symbol<Final>,
    set_padding: Symbol<SetPadding>,
    by_name: Symbol<ByName>,
    key_length: Symbol<Number>,
    iv_length: Symbol<Number>,
}

/// A context that is freed.
struct Context<'a> {
    library: &'a Libcrypto,
    raw: *mut c_void,
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is one of this library's, and nothing uses it any more.
        unsafe { (self.library.free)(self.raw) }
    }
}

impl Libcrypto {
    /// Loads the library at `path`, which runs code of it, and has it read its configuration. The
    /// caller answers for the file being a libcrypto.
    ///
    /// # Errors
    /// [`CipherError::Unable`] if it cannot be loaded, is not initialised, or lacks a function.
    pub fn load(path: &Path) -> Result<Self, CipherError> {
        let unable = |error: libloading::Error| CipherError::Unable(error.to_string());
        let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_LOCAL;
        // SAFETY: what a libcrypto does when it is loaded is to set up itself; that `path` is one is
        // the caller's word.
        let library = unsafe { Library::open(Some(path), flags) }.map_err(unable)?;
        // SAFETY: these are the functions' types in every OpenSSL since 1.1 (`openssl/evp.h` and
        // `openssl/crypto.h`), and in LibreSSL and BoringSSL where they have them.
        let loaded = unsafe {
            let init = library
                .get::<Init>(b"OPENSSL_init_crypto\0")
                .map_err(unable)?;
            if init(LOAD_CONFIG, ptr::null()) != 1 {
                let reason = "it is not initialised: OPENSSL_init_crypto failed";
                return Err(CipherError::Unable(reason.to_owned()));
            }
            // Before OpenSSL 3 these had no `get` in their names.
            let number = |new: &[u8], old: &[u8]| {
                let found = library.get::<Number>(new);
                found
                    .or_else(|_| library.get::<Number>(old))
                    .map_err(unable)
            };
            Self {
                new: library.get(b"EVP_CIPHER_CTX_new\0").map_err(unable)?,
                free: library.get(b"EVP_CIPHER_CTX_free\0").map_err(unable)?,
                init: library.get(b"EVP_CipherInit_ex\0").map_err(unable)?,
                control: library.get(b"EVP_CIPHER_CTX_ctrl\0").map_err(unable)?,
                update: library.get(b"EVP_CipherUpdate\0").map_err(unable)?,
                finish: library.get(b"EVP_CipherFinal_ex\0").map_err(unable)?,
                set_padding: library
                    .get(b"EVP_CIPHER_CTX_set_padding\0")
                    .map_err(unable)?,
                by_name: library.get(b"EVP_get_cipherbyname\0").map_err(unable)?,
                key_length: number(
                    b"EVP_CIPHER_CTX_get_key_length\0",
                    b"EVP_CIPHER_CTX_key_length\0",
                )?,
                iv_length: number(
                    b"EVP_CIPHER_CTX_get_iv_length\0",
                    b"EVP_CIPHER_CTX_iv_length\0",
                )?,
                library: ManuallyDrop::new(library),
            }
        };
        Ok(loaded)
    }

    /// Does an operation; the ciphertext with its tag after it, or the plaintext.
    ///
    /// # Errors
    /// If the library lacks what is asked for, or refuses.
    pub fn apply(&self, operation: &CipherOperation<'_>) -> Result<Vec<u8>, CipherError> {
        self.forget_errors();
        let engine = match operation.source {
            Source::Engine(name) => self.engine(name)?,
            _ => ptr::null_mut(),
        };
        let cipher = self.cipher(operation)?;
        // SAFETY: the function takes nothing; what it gives is freed once, when `context` is dropped.
        let raw = unsafe { (self.new)() };
        if raw.is_null() {
            return Err(CipherError::Unable(self.reason("no memory")));
        }
        let context = Context { library: self, raw };
        let encrypts = c_int::from(matches!(operation.tag, Tag::Make(_)));
        // SAFETY: `cipher` and `engine` are the library's; without key and vector none is read.
        let begun = unsafe {
            (self.init)(
                context.raw,
                cipher,
                engine,
                ptr::null(),
                ptr::null(),
                encrypts,
            )
        };
        if begun != 1 {
            let reason = self.reason("it has no such cipher");
            return Err(CipherError::Lacks(reason));
        }
        // SAFETY: this sets a flag of the context.
        unsafe { (self.set_padding)(context.raw, 0) };
        self.set_key(&context, operation)?;
        self.run(&context, operation)
    }

    /// The cipher; it is not freed, as the process ends soon.
    fn cipher(&self, operation: &CipherOperation<'_>) -> Result<*const c_void, CipherError> {
        let name = c_string(operation.cipher)?;
        let lacks = |reason: &str| CipherError::Lacks(self.reason(reason));
        // SAFETY: its type in OpenSSL since 3.0; older ones do not have it.
        let fetch = unsafe { self.library.get::<Fetch>(b"EVP_CIPHER_fetch\0") };
        let query = match (operation.source, &fetch) {
            (Source::Provider(provider), Ok(_)) => {
                self.load_provider(provider)?;
                // `openssl speed` needs what the others have, besides.
                self.load_provider("default")?;
                Some(c_string(&format!("provider={provider}"))?)
            }
            (Source::Provider(_), Err(_)) => return Err(lacks("it has no providers")),
            _ => None,
        };
        let by_name = || {
            // SAFETY: the name is a C string; the library keeps what it gives.
            unsafe { (self.by_name)(name.as_ptr()) }
        };
        let found = match (&fetch, operation.source) {
            // An engine takes no cipher that was fetched.
            (_, Source::Engine(_)) | (Err(_), _) => by_name(),
            (Ok(fetch), _) => {
                let query = query.as_ref().map_or(ptr::null(), |query| query.as_ptr());
                // SAFETY: name and query are C strings, or the query is none.
                let fetched = unsafe { fetch(ptr::null_mut(), name.as_ptr(), query) };
                match fetched.is_null() && query.is_null() {
                    true => by_name(),
                    false => fetched,
                }
            }
        };
        match found.is_null() {
            true => Err(lacks("it has no such cipher")),
            false => Ok(found.cast_const()),
        }
    }

    fn load_provider(&self, name: &str) -> Result<(), CipherError> {
        let text = c_string(name)?;
        // SAFETY: its type in OpenSSL since 3.0, where `EVP_CIPHER_fetch` is, too.
        let load = unsafe { self.library.get::<LoadProvider>(b"OSSL_PROVIDER_load\0") };
        let load = load.map_err(|error| CipherError::Lacks(error.to_string()))?;
        // SAFETY: the name is a C string.
        let loaded = unsafe { load(ptr::null_mut(), text.as_ptr()) };
        match loaded.is_null() {
            true => Err(CipherError::Lacks(
                self.reason(&format!("it does not load the provider {name}")),
            )),
            false => Ok(()),
        }
    }

    fn engine(&self, name: &str) -> Result<*mut c_void, CipherError> {
        let text = c_string(name)?;
        // SAFETY: their types in OpenSSL before 4.0; later ones do not have them.
        let functions = unsafe {
            let by_id = self.library.get::<ByName>(b"ENGINE_by_id\0");
            let init = self.library.get::<Number>(b"ENGINE_init\0");
            by_id.and_then(|by_id| Ok((by_id, init?)))
        };
        let (by_id, init) = functions.map_err(|error| CipherError::Lacks(error.to_string()))?;
        // SAFETY: the name is a C string; the engine is initialised once, and stays so.
        let engine = unsafe {
            let engine = by_id(text.as_ptr());
            (!engine.is_null() && init(engine) == 1).then_some(engine)
        };
        engine.ok_or_else(|| {
            CipherError::Lacks(self.reason(&format!("it does not load the engine {name}")))
        })
    }

    /// Sets key, vector and tag, when their lengths are what the cipher takes.
    fn set_key(
        &self,
        context: &Context<'_>,
        operation: &CipherOperation<'_>,
    ) -> Result<(), CipherError> {
        let failed = |what: &str| CipherError::Failed(self.reason(what));
        if let Tag::Make(1..) | Tag::Check([_, ..]) = operation.tag {
            let length = length(operation.iv)?;
            // SAFETY: this control has a number, and no data.
            let set =
                unsafe { (self.control)(context.raw, SET_IV_LENGTH, length, ptr::null_mut()) };
            if set != 1 {
                return Err(failed("it does not take a nonce of this length"));
            }
        }
        // SAFETY: both read fields of the context.
        let lengths = unsafe {
            [
                (self.key_length)(context.raw),
                (self.iv_length)(context.raw),
            ]
        };
        if lengths != [length(operation.key)?, length(operation.iv)?] {
            let reason = format!("it wants a key and a vector of {lengths:?} bytes");
            return Err(CipherError::Lacks(reason));
        }
        // SAFETY: key and vector have the lengths that the cipher reads; -1 leaves the direction.
        let set = unsafe {
            let (key, iv) = (operation.key.as_ptr(), operation.iv.as_ptr());
            (self.init)(context.raw, ptr::null(), ptr::null_mut(), key, iv, -1)
        };
        if set != 1 {
            return Err(failed("it does not take the key"));
        }
        if let Tag::Check(tag @ [_, ..]) = operation.tag {
            let mut own = tag.to_vec();
            // SAFETY: the tag has the length that is given, and is copied.
            let set = unsafe {
                (self.control)(context.raw, SET_TAG, length(tag)?, own.as_mut_ptr().cast())
            };
            if set != 1 {
                return Err(failed("it does not take the tag"));
            }
        }
        Ok(())
    }

    fn run(
        &self,
        context: &Context<'_>,
        operation: &CipherOperation<'_>,
    ) -> Result<Vec<u8>, CipherError> {
        let failed = |what: &str| CipherError::Failed(self.reason(what));
        let mut count: c_int = 0;
        if !operation.associated.is_empty() {
            let associated = operation.associated;
            // SAFETY: without an output these are associated data, of the length that is given.
            let read = unsafe {
                let output = ptr::null_mut();
                let length = length(associated)?;
                (self.update)(
                    context.raw,
                    output,
                    &raw mut count,
                    associated.as_ptr(),
                    length,
                )
            };
            if read != 1 {
                return Err(failed("it does not take the associated data"));
            }
        }
        let mut output = vec![0; operation.input.len() + MORE];
        // SAFETY: the output has room for the input and a block more.
        let written = unsafe {
            let (to, from) = (output.as_mut_ptr(), operation.input.as_ptr());
            (self.update)(
                context.raw,
                to,
                &raw mut count,
                from,
                length(operation.input)?,
            )
        };
        let mut length = usize::try_from(count).unwrap_or(usize::MAX);
        if written != 1 || length > operation.input.len() + MORE / 2 {
            return Err(failed("it does not take the data"));
        }
        // SAFETY: behind what was written there is room for half of `MORE`, two blocks at least.
        let ended =
            unsafe { (self.finish)(context.raw, output[length..].as_mut_ptr(), &raw mut count) };
        if ended != 1 {
            return Err(match operation.tag {
                Tag::Check([_, ..]) => CipherError::Forged(self.reason("another tag")),
                _ => failed("it does not end the operation"),
            });
        }
        length = length.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        if length > output.len() {
            return Err(failed("it gives more than it was given"));
        }
        output.truncate(length);
        if let Tag::Make(bytes @ 1..=16) = operation.tag {
            let mut tag = [0_u8; 16];
            // SAFETY: the tag has room for 16 bytes, and `bytes` is not more.
            let got = unsafe {
                (self.control)(
                    context.raw,
                    GET_TAG,
                    bytes as c_int,
                    tag.as_mut_ptr().cast(),
                )
            };
            if got != 1 {
                return Err(failed("it gives no tag"));
            }
            output.extend(&tag[..bytes]);
        }
        Ok(output)
    }

    /// What went wrong before is no reason for what fails now.
    fn forget_errors(&self) {
        // SAFETY: its type in every OpenSSL (`openssl/err.h`); it takes and gives nothing.
        unsafe {
            if let Ok(clear) = self.library.get::<Clear>(b"ERR_clear_error\0") {
                clear();
            }
        }
    }

    /// What failed, with what the library says of it, if it does.
    fn reason(&self, what: &str) -> String {
        // SAFETY: their types in every OpenSSL (`openssl/err.h`).
        let functions = unsafe {
            let error = self.library.get::<Error>(b"ERR_peek_error\0");
            let describe = self.library.get::<Describe>(b"ERR_error_string_n\0");
            error.and_then(|error| Ok((error, describe?)))
        };
        let Ok((error, describe)) = functions else {
            return what.to_owned();
        };
        let mut text = [0 as c_char; 256];
        // SAFETY: the text has the length that is given, and ends in NUL.
        let said = unsafe {
            let number = error();
            if number == 0 {
                return what.to_owned();
            }
            describe(number, text.as_mut_ptr(), text.len());
            text[text.len() - 1] = 0;
            CStr::from_ptr(text.as_ptr()).to_string_lossy()
        };
        format!("{what} ({said})")
    }
}

fn c_string(text: &str) -> Result<CString, CipherError> {
    CString::new(text).map_err(|error| CipherError::Unable(error.to_string()))
}

fn length(bytes: &[u8]) -> Result<c_int, CipherError> {
    c_int::try_from(bytes.len()).map_err(|error| CipherError::Unable(error.to_string()))
}
