//! Measuring on another machine: brisk there answers requests on its standard input, a JSON value in
//! each line, on its standard output.

use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::implementation::Implementation;
use super::local::{About, Worker};
use super::measure::{Mark, Measured, NotMeasured, Request};
use super::vectors::Checked;

/// Bytes of the longest line that is read.
pub(super) const LONGEST: u64 = 1 << 20;

/// What a worker is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Question {
    /// What the machine is, and which implementations of the algorithm it has.
    About(String),
    /// Whether an implementation gives the published results.
    Check {
        /// Implementation.
        implementation: Implementation,
        /// Name of the algorithm.
        algorithm: String,
    },
    /// To measure.
    Measure(Request),
}

/// What it answers. Marks come before the result of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// What the machine is.
    About(About),
    /// Whether the implementation was checked.
    Checked(Checked),
    /// The measurement begins.
    Begin,
    /// It is to end.
    End,
    /// Its result.
    Measured(Measured),
    /// Why there is none.
    Failed(String),
    /// What has not answered, and is of no use any more.
    Silent(String),
}

/// Answers questions until the input ends.
///
/// # Errors
/// If input or output fails, a question is not understood, or a signal comes, whose number is in
/// [`NotMeasured::Interrupted`].
pub fn serve(
    machine: &mut dyn Worker,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<(), NotMeasured> {
    while let Some(line) = next_line(input)? {
        let question = serde_json::from_slice(&line).map_err(io::Error::from)?;
        let answer = match answer(machine, question, output) {
            Err(NotMeasured::Failed(reason)) => Answer::Failed(reason),
            Err(NotMeasured::NoAnswer(reason)) => Answer::Silent(reason),
            other => other?,
        };
        say(output, &answer)?;
    }
    Ok(())
}

fn answer(
    machine: &mut dyn Worker,
    question: Question,
    output: &mut dyn Write,
) -> Result<Answer, NotMeasured> {
    match question {
        Question::About(name) => machine.about(algorithm(&name)?).map(Answer::About),
        Question::Check {
            implementation,
            algorithm: name,
        } => machine
            .check(&implementation, algorithm(&name)?)
            .map(Answer::Checked),
        Question::Measure(request) => {
            // The result tells whether the other side is still there.
            let mut mark = |mark| {
                let answer = match mark {
                    Mark::Begin => Answer::Begin,
                    Mark::End => Answer::End,
                };
                let _ = say(output, &answer);
            };
            machine.measure(&request, &mut mark).map(Answer::Measured)
        }
    }
}

fn algorithm(name: &str) -> Result<&'static Algorithm, NotMeasured> {
    Algorithm::find(name).ok_or_else(|| NotMeasured::Failed(format!("no algorithm {name}")))
}

pub(super) fn say(output: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

/// The next line; none at the end of the input. A longer one than [`LONGEST`] is an error.
pub(super) fn next_line(input: &mut dyn BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = input.take(LONGEST).read_until(b'\n', &mut line)?;
    if read as u64 == LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the other side sent a line that is too long",
        ));
    }
    Ok((read > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::super::window::Window;
    use super::*;

    struct Scripted;

    impl Worker for Scripted {
        fn about(&mut self, algorithm: &'static Algorithm) -> Result<About, NotMeasured> {
            Ok(About {
                kernel: algorithm.kernel.to_owned(),
                ..About::default()
            })
        }

        fn check(
            &mut self,
            implementation: &Implementation,
            _: &'static Algorithm,
        ) -> Result<Checked, NotMeasured> {
            match implementation {
                Implementation::OpenSsl => Ok(Checked::Yes),
                other => Err(NotMeasured::Failed(format!("{other} is broken"))),
            }
        }

        fn measure(
            &mut self,
            request: &Request,
            mark: &mut dyn FnMut(Mark),
        ) -> Result<Measured, NotMeasured> {
            if request.bytes == 0 {
                return Err(NotMeasured::Interrupted(15));
            }
            mark(Mark::Begin);
            mark(Mark::End);
            Ok(Measured {
                groups: Vec::new(),
                window: Window::default(),
                proof: None,
            })
        }
    }

    fn answers(questions: &str) -> (Result<(), NotMeasured>, String) {
        let mut output = Vec::new();
        let ended = serve(&mut Scripted, &mut questions.as_bytes(), &mut output);
        (ended, String::from_utf8(output).unwrap())
    }

    fn measure(bytes: usize) -> String {
        let request = format!(
            r#"{{"algorithm":"sha256","direction":"encrypt","bytes":{bytes},"seconds":1.0,"groups":[]}}"#
        );
        format!("{{\"measure\":{request}}}\n")
    }

    #[test]
    fn each_question_has_an_answer() {
        let questions = [
            "{\"about\":\"aes-128-cbc\"}\n",
            "{\"about\":\"rot13\"}\n",
            "{\"check\":{\"implementation\":\"openssl\",\"algorithm\":\"sha256\"}}\n",
            "{\"check\":{\"implementation\":\"af-alg:x\",\"algorithm\":\"sha256\"}}\n",
            &measure(16),
        ];
        let (ended, text) = answers(&questions.concat());
        ended.unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains(r#""kernel":"cbc(aes)""#), "{text}");
        assert_eq!(lines[1], r#"{"failed":"no algorithm rot13"}"#);
        assert_eq!(lines[2], r#"{"checked":"yes"}"#);
        assert_eq!(lines[3], r#"{"failed":"af-alg:x is broken"}"#);
        assert_eq!(lines[4..6], [r#""begin""#, r#""end""#]);
        assert!(lines[6].starts_with(r#"{"measured":{"#), "{text}");
    }

    #[test]
    fn signals_and_what_is_no_question_end_it() {
        let (ended, text) = answers(&measure(0));
        assert!(matches!(ended, Err(NotMeasured::Interrupted(15))));
        assert_eq!(text, "");
        for bad in ["hello\n", "{\"about\":1}\n", "{}\n"] {
            assert!(
                matches!(answers(bad).0, Err(NotMeasured::System(_))),
                "{bad}"
            );
        }
        let long = "x".repeat(LONGEST as usize + 1);
        let error = answers(&long).0.unwrap_err().to_string();
        assert!(error.contains("too long"), "{error}");
    }
}
