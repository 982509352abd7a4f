//! Guests and harness for the tests of brisk.
