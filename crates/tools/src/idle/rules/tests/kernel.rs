//! Parameters of a Linux guest's kernel.

use super::*;

#[test]
fn a_kernel_without_the_clock_of_kvm_is_found() {
    for (words, is_found) in [
        ("-accel kvm -append no-kvmclock", true),
        ("-accel kvm -append no-kvmclock-vsyscall", false),
        ("-accel tcg -append no-kvmclock", false),
        ("-accel kvm -cpu host,+invtsc -append no-kvmclock", false),
    ] {
        let found = ids(&line(words), &Context::default());
        assert_eq!(found.contains(&"kvmclock"), is_found, "{words}");
    }
    let text = domain("<os><kernel>k</kernel><cmdline>quiet no-kvmclock</cmdline></os>");
    let fixed = fix(text.clone(), &Context::default(), Wanted { rules: &[] }).unwrap();
    assert!(matches!(fixed.text, Text::Xml(xml) if xml.contains("no-kvmclock")));
    let asked = named("kvmclock", text).text;
    assert!(matches!(asked, Text::Xml(xml) if xml.contains("<cmdline>quiet</cmdline>")));
}
