//! What this machine is: kernels, modules, programs.
