mod faults;
mod machine;
mod plans;
mod records;
mod scene;
mod states;
