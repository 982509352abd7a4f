//! Protocol of the QEMU guest agent (`docs/interop/qemu-ga.rst`), as far as finding out whether it
//! answers. Pure.

use serde_json::{Value, json};

/// Most bytes of an answer.
const LONGEST: usize = 64 * 1024;
/// Byte that begins a message for the agent anew, and the answer to `guest-sync-delimited`.
const DELIMITER: u8 = 0xff;

/// A conversation with an agent.
#[derive(Debug, Default)]
pub struct Agent {
    /// Number of the last synchronisation: an answer to an earlier one is stale.
    id: u64,
    synchronised: bool,
    buffer: Vec<u8>,
}

impl Agent {
    /// Message for an agent that has opened its port: all before is void.
    pub fn hello(&mut self) -> Vec<u8> {
        self.id += 1;
        self.synchronised = false;
        self.buffer.clear();
        let mut bytes = vec![DELIMITER];
        for command in [
            json!({"execute": "guest-sync-delimited", "arguments": {"id": self.id}}),
            json!({"execute": "guest-ping"}),
        ] {
            bytes.extend(command.to_string().bytes());
            bytes.push(b'\n');
        }
        bytes
    }

    /// Adds bytes as they arrived; whether the agent has answered.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            match byte {
                DELIMITER => self.buffer.clear(),
                b'\n' => {
                    let line = std::mem::take(&mut self.buffer);
                    if self.line(&line) {
                        return true;
                    }
                }
                _ if self.buffer.len() < LONGEST => self.buffer.push(byte),
                _ => {}
            }
        }
        false
    }

    /// Whether the line answers the ping; a refusal is an answer, too.
    fn line(&mut self, line: &[u8]) -> bool {
        let Ok(Value::Object(answer)) = serde_json::from_slice(line) else {
            return false;
        };
        if self.synchronised {
            return answer.contains_key("return") || answer.contains_key("error");
        }
        self.synchronised = answer.get("return").and_then(Value::as_u64) == Some(self.id);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_when_it_has_answered_the_ping() {
        let mut agent = Agent::default();
        let hello = agent.hello();
        assert_eq!(hello[0], 0xff);
        assert_eq!(hello.iter().filter(|byte| **byte == b'\n').count(), 2);
        let replies = b"\xff{\"return\": 1}\n{\"return\": {}}\n";
        let answered: Vec<_> = replies.iter().map(|byte| agent.push(&[*byte])).collect();
        assert_eq!(
            answered.iter().position(|yes| *yes),
            Some(replies.len() - 1)
        );
    }

    #[test]
    fn what_was_said_before_it_was_asked_is_no_answer() {
        let mut agent = Agent::default();
        let _ = agent.hello();
        let _ = agent.hello();
        assert!(!agent.push(b"{\"return\": {}}\n\xff{\"return\": 1}\n{\"return\": {}}\n"));
        assert!(!agent.push(b"{\"error\"\xff{\"return\": 2}\n"));
        assert!(agent.push(b"{\"error\": {\"class\": \"CommandNotFound\"}}\n"));
    }

    #[test]
    fn noise_is_no_answer_and_is_not_kept() {
        let mut agent = Agent::default();
        let _ = agent.hello();
        for _ in 0..100 {
            assert!(!agent.push(&[b'x'; 4096]));
        }
        assert!(agent.buffer.len() <= LONGEST);
        assert!(!agent.push(b"\n[]\nnull\n"));
        assert!(!agent.push(b"\xff{\"return\": 1}\n"));
        assert!(agent.push(b"{\"return\": {}}\n"));
    }
}
