//! What an idle guest costs its host, why, and what to change.

pub mod backup;
pub mod domain;
pub mod fix;
pub mod host;
pub mod measure;
pub mod prove;
pub mod proxmox;
pub mod rules;
mod script;
pub mod text;
pub mod trial;
pub mod vm;
