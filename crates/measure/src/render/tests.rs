//! Properties that every renderer has.
