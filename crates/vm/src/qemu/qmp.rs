//! The QEMU Machine Protocol: JSON objects, one a line.
//!
//! See `docs/interop/qmp-spec.rst` of QEMU. Only what brisk uses: commands, and events as
//! they come.

use serde_json::{Value, json};

/// Longest line that is accepted, bytes: QEMU is confined but not trusted with brisk's memory.
const LONGEST: usize = 8 * 1024 * 1024;

/// A message from QEMU.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The first line: QEMU is up.
    Greeting,
    /// An event.
    Event {
        /// Name, such as `SHUTDOWN`.
        name: String,
        /// Its data.
        data: Value,
    },
    /// A command succeeded.
    Return(Value),
    /// A command failed.
    Error(String),
    /// The result of a command that had a name of its own.
    Answer {
        /// The name.
        id: String,
        /// Its return value, or QEMU's error message.
        result: Result<Value, String>,
    },
}

/// Error of the protocol.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No JSON, or not of the protocol.
    #[error("QEMU's control channel sent what is no QMP message: {0}")]
    Malformed(String),
    /// A line without end.
    #[error("QEMU's control channel sent a line of more than {LONGEST} bytes")]
    TooLong,
}

/// Splits a stream of bytes into messages.
#[derive(Debug, Default)]
pub struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// Adds bytes as they arrived; the result is the whole messages among them.
    ///
    /// # Errors
    /// If they are not of the protocol.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Message>, Error> {
        self.buffer.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            if !line.trim_ascii().is_empty() {
                messages.push(message(&line)?);
            }
        }
        if self.buffer.len() > LONGEST {
            return Err(Error::TooLong);
        }
        Ok(messages)
    }
}

fn message(line: &[u8]) -> Result<Message, Error> {
    let malformed = || Error::Malformed(String::from_utf8_lossy(line).trim().to_owned());
    let mut value: Value = serde_json::from_slice(line).map_err(|_| malformed())?;
    if value.get("QMP").is_some() {
        return Ok(Message::Greeting);
    }
    if let Some(name) = value.get("event").and_then(Value::as_str) {
        let name = name.to_owned();
        return Ok(Message::Event {
            name,
            data: value["data"].take(),
        });
    }
    let failed = value.pointer("/error/desc").and_then(Value::as_str);
    let result = match (failed.map(str::to_owned), value.get_mut("return")) {
        (Some(description), _) => Err(description),
        (None, Some(result)) => Ok(result.take()),
        (None, None) => return Err(malformed()),
    };
    Ok(match (value["id"].as_str(), result) {
        (Some(id), result) => Message::Answer {
            id: id.to_owned(),
            result,
        },
        (None, Ok(value)) => Message::Return(value),
        (None, Err(description)) => Message::Error(description),
    })
}

/// Encodes a command without arguments.
#[must_use]
pub fn command(name: &str) -> Vec<u8> {
    command_with(name, &Value::Null)
}

/// Encodes a command with arguments.
#[must_use]
pub fn command_with(name: &str, arguments: &Value) -> Vec<u8> {
    line(json!({ "execute": name }), arguments)
}

/// Encodes a command whose answer has the name `id`.
#[must_use]
pub fn named(id: &str, name: &str, arguments: &Value) -> Vec<u8> {
    line(json!({ "execute": name, "id": id }), arguments)
}

/// Encodes an out-of-band command, which is executed even if others wait for the guest, on a
/// channel where that was negotiated; the answer has the name `id`.
#[must_use]
pub fn urgent(id: &str, name: &str, arguments: &Value) -> Vec<u8> {
    line(json!({ "exec-oob": name, "id": id }), arguments)
}

fn line(mut object: Value, arguments: &Value) -> Vec<u8> {
    if !arguments.is_null() {
        object["arguments"] = arguments.clone();
    }
    let mut line = object.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from QEMU 10.0.2 started with `-no-reboot`, whose guest reset itself.
    const TRANSCRIPT: &str = concat!(
        r#"{"QMP": {"version": {"qemu": {"micro": 2, "minor": 0, "major": 10}, "package": "Debian 1:10.0.2+ds-2+deb13u1~bpo12+1"}, "capabilities": ["oob"]}}"#,
        "\r\n",
        r#"{"return": {}}"#,
        "\r\n",
        r#"{"timestamp": {"seconds": 1763716000, "microseconds": 1}, "event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-reset"}}"#,
        "\r\n",
        r#"{"error": {"class": "CommandNotFound", "desc": "The command x has not been found"}}"#,
        "\r\n",
    );

    #[test]
    fn a_transcript_is_understood_however_it_is_cut() {
        for cut in [1, 7, 64, 4096] {
            let mut reader = Reader::default();
            let mut got = Vec::new();
            for piece in TRANSCRIPT.as_bytes().chunks(cut) {
                got.extend(reader.push(piece).unwrap());
            }
            assert_eq!(
                got,
                [
                    Message::Greeting,
                    Message::Return(json!({})),
                    Message::Event {
                        name: "SHUTDOWN".into(),
                        data: json!({"guest": true, "reason": "guest-reset"})
                    },
                    Message::Error("The command x has not been found".into()),
                ]
            );
        }
    }

    #[test]
    fn answers_have_the_names_of_their_commands() {
        let answers =
            b"{\"return\": {}, \"id\": \"a\"}\n{\"id\": \"b\", \"error\": {\"desc\": \"no\"}}\n";
        let answer = |id: &str, result| Message::Answer {
            id: id.into(),
            result,
        };
        assert_eq!(
            Reader::default().push(answers).unwrap(),
            [answer("a", Ok(json!({}))), answer("b", Err("no".into()))]
        );
        assert_eq!(
            named("a", "b", &Value::Null),
            b"{\"execute\":\"b\",\"id\":\"a\"}\n"
        );
        assert_eq!(
            urgent("a", "b", &json!({"uri": "c"})),
            b"{\"arguments\":{\"uri\":\"c\"},\"exec-oob\":\"b\",\"id\":\"a\"}\n"
        );
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for line in ["hello\n", "[]\n", "{\"a\": 1}\n"] {
            let error = Reader::default().push(line.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(line.trim()), "{error}");
        }
    }

    #[test]
    fn commands_are_single_lines() {
        assert_eq!(command("quit"), b"{\"execute\":\"quit\"}\n");
        let with = command_with("migrate", &json!({"uri": "a\nb"}));
        assert_eq!(with.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}
