//! What a guest says at each of its channels, as events of the observation.

use std::io;
use std::time::Duration;

use brisk_vm::guest::Event;
use brisk_vm::libvirt;
use brisk_vm::qemu::qmp;
use serde_json::Value;

use super::Watch;
use crate::boot::observation::{Ended, Piece};
use crate::boot::ready_condition::Until;
use crate::run::Milestone;

impl Watch {
    pub(super) fn take_qmp(&mut self, at: u64, bytes: &[u8]) -> io::Result<Option<Ended>> {
        for message in self.reader.push(bytes).map_err(io::Error::other)? {
            match message {
                qmp::Message::Greeting => self.moment(at, Milestone::QemuUp.name()),
                qmp::Message::Event { name, data } => {
                    if let Some(ended) = self.take_event(at, name, &data) {
                        return Ok(Some(ended));
                    }
                }
                qmp::Message::Return(value) => {
                    let count = value["icount"].as_u64().filter(|_| self.debugger.is_some());
                    if count.is_some() {
                        self.observation.entered = count;
                        return Ok(self.reached(Until::Kernel));
                    }
                }
                qmp::Message::Error(reason) if self.debugger.is_some() => {
                    let reason = format!("QEMU cannot count instructions: {reason}");
                    return Ok(Some(Ended::Failed(reason)));
                }
                qmp::Message::Error(_) | qmp::Message::Answer { .. } => {}
            }
        }
        Ok(None)
    }

    /// Processes bytes of the debugger; the VM stays stopped while its count of instructions is
    /// read.
    pub(super) fn take_debugger(&mut self, bytes: &[u8]) -> Option<Ended> {
        let reply = match self.debugger.as_mut()?.push(bytes) {
            Ok(reply) => reply,
            Err(error) => return Some(Ended::Failed(error.to_string())),
        };
        if !reply.bytes.is_empty() {
            self.machine.send_to_debugger(&reply.bytes);
        }
        if reply.there {
            self.machine.ask("query-replay");
        }
        None
    }

    pub(super) fn take_event(&mut self, at: u64, name: String, data: &Value) -> Option<Ended> {
        let is_marker = self.qmp_event.as_deref() == Some(&name);
        if name == "VSERPORT_CHANGE" && data["open"] == true {
            self.machine.ask_agent();
        }
        self.observation.add_event(at, name);
        is_marker.then(|| self.ready(at)).flatten()
    }

    pub(super) fn take_events(&mut self, events: Vec<(Duration, libvirt::Event)>) -> Option<Ended> {
        events
            .into_iter()
            .find_map(|(at, event)| self.take_event(at.as_nanos() as u64, event.name, &event.data))
    }

    pub(super) fn take_console(&mut self, at: u64, bytes: &[u8]) -> Option<Ended> {
        self.moment(at, Milestone::Kernel.name());
        // The last words of a failure are wanted even where nothing else is.
        let text = self.kept.text(bytes);
        let piece = text.map(|text| Piece { at, text });
        self.observation.console.extend(piece);
        let found = self.scanner.as_mut().is_some_and(|s| s.push(bytes));
        if found {
            self.scanner = None;
            if let Some(ended) = self.ready(at) {
                return Some(ended);
            }
        }
        // A breakpoint is more exact.
        self.reached(Until::Kernel)
            .filter(|_| self.debugger.is_none())
    }

    pub(super) fn take_frames(&mut self, bytes: &[u8]) -> io::Result<Option<Ended>> {
        self.decoder.push(bytes);
        while let Some(event) = self.decoder.next_event().map_err(io::Error::other)? {
            let ended = match event {
                Event::Hello(stamps) => {
                    self.stamps(&stamps);
                    self.reached(Until::Init)
                }
                Event::Started(stamps) => {
                    self.stamps(&stamps);
                    self.reached(Until::Ready)
                }
                Event::Log(bytes) => {
                    if self.limits.keep {
                        let text = self.kept.text(&bytes);
                        self.observation.log.extend(text);
                    }
                    None
                }
                Event::Exit(exit, stamps) => {
                    self.stamps(&stamps);
                    let at = self.now();
                    self.moment(at, Milestone::Exit.name());
                    Some(self.command_ended(exit))
                }
                Event::Failure {
                    stage,
                    errno,
                    subject,
                } => {
                    let reason = io::Error::from_raw_os_error(errno);
                    Some(Ended::Failed(format!(
                        "init failed at {stage:?} of {subject}: {reason}"
                    )))
                }
                Event::Paused => Some(Ended::Failed(
                    "the guest came to a pause that nobody asked for".into(),
                )),
                Event::Stdout(_) | Event::Stderr(_) | Event::Credit(_) => None,
            };
            if ended.is_some() {
                return Ok(ended);
            }
        }
        Ok(None)
    }
}
