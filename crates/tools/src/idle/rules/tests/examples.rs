//! Guests for each rule.

/// How a rule is tried.
pub(super) struct Example {
    pub(super) rule: &'static str,
    /// Contents of a domain of type kvm in which it finds something; empty if XML cannot say it.
    pub(super) xml: &'static str,
    /// Words of a command line in which it finds something.
    pub(super) words: &'static str,
    /// As `xml`, in which it finds nothing.
    pub(super) near_xml: &'static str,
    /// As `words`, in which it finds nothing.
    pub(super) near_words: &'static str,
}

/// A Windows with the synthetic timer and all that it needs, as XML and as words.
macro_rules! stimer {
    (xml $more:literal) => {
        concat!(
            "<features><hyperv><vpindex state='on'/><synic state='on'/><stimer state='on'/>",
            $more,
            "</hyperv></features><clock offset='localtime'><timer name='hypervclock' \
             present='yes'/></clock>"
        )
    };
    (words $more:literal) => {
        concat!(
            "-accel kvm -cpu host,hv-time,hv-vpindex,hv-synic,hv-stimer",
            $more
        )
    };
}

pub(super) const EXAMPLES: &[Example] = &[
    Example {
        rule: "hv-stimer",
        xml: "<clock offset='localtime'/>",
        words: "-accel kvm -rtc base=localtime",
        near_xml: "<clock offset='utc'/>",
        near_words: "-accel kvm -name wine",
    },
    Example {
        rule: "hv-deps",
        xml: "<features><hyperv><stimer state='on'/><synic state='on'/></hyperv></features>",
        words: "-accel kvm -cpu host,hv-ipi",
        near_xml: stimer!(xml ""),
        near_words: "-M pc-i440fx-3.0 -accel kvm -cpu host,hv-synic",
    },
    Example {
        rule: "hv-hidden",
        xml: "<clock offset='localtime'/><cpu mode='host-passthrough'><feature policy='disable' \
              name='hypervisor'/></cpu>",
        words: "-accel kvm -cpu host,-hypervisor,hv-relaxed",
        near_xml: "<cpu mode='host-passthrough'><feature policy='disable' name='hypervisor'/></cpu>",
        near_words: "-accel kvm -cpu host,kvm=off,hv-relaxed",
    },
    Example {
        rule: "hv-time",
        xml: "<features><hyperv><relaxed state='on'/></hyperv></features>",
        words: "-accel kvm -cpu host,hv-relaxed",
        near_xml: "<clock offset='localtime'><timer name='hypervclock' present='yes'/></clock>",
        near_words: "-accel kvm -cpu host,hv_time",
    },
    Example {
        rule: "hv-usual",
        xml: stimer!(xml "<relaxed state='on'/>"),
        words: stimer!(words ",hv-relaxed"),
        near_xml: stimer!(xml "<relaxed state='on'/><vapic state='on'/><runtime state='on'/>\
                               <spinlocks state='off'/>"),
        near_words: stimer!(words ",hv-relaxed,hv-vapic,hv-runtime,hv-spinlocks=0x1fff"),
    },
    Example {
        rule: "hv-tcg",
        xml: "",
        words: "-accel tcg -cpu max,hv-relaxed",
        near_xml: stimer!(xml ""),
        near_words: "-accel tcg -cpu max,hv-relaxed=off",
    },
    Example {
        rule: "hv-evmcs",
        xml: "<cpu><model>EPYC-Rome</model></cpu><features><hyperv><vapic state='on'/><evmcs \
              state='on'/></hyperv></features>",
        words: "-accel kvm -cpu EPYC,hv-vapic,hv-evmcs",
        near_xml: "<cpu><model>Skylake-Client</model></cpu><features><hyperv><evmcs \
                   state='on'/></hyperv></features>",
        near_words: "-accel kvm -cpu EPYC,hv-vapic,hv-evmcs=off",
    },
    Example {
        rule: "hv-avic",
        xml: "<features><hyperv><avic state='on'/></hyperv></features>",
        words: "-accel kvm -cpu host,hv-avic",
        near_xml: "<features><hyperv><avic state='off'/></hyperv></features>",
        near_words: "-accel kvm -cpu host",
    },
    Example {
        rule: "hv-passthrough",
        xml: "<features><hyperv mode='passthrough'/></features>",
        words: "-accel kvm -cpu host,hv-passthrough",
        near_xml: "<features><hyperv mode='custom'/></features>",
        near_words: "-accel kvm -cpu host,hv-passthrough=off",
    },
    Example {
        rule: "hv-debug",
        xml: "<devices><panic model='hyperv'/></devices>",
        words: "-accel kvm -cpu host,hv-crash",
        near_xml: "<devices><panic model='isa'/></devices>",
        near_words: "-accel kvm -cpu host,hv-reset=off",
    },
    Example {
        rule: "win-11",
        xml: concat!("<name>win11</name>", stimer!(xml "")),
        words: stimer!(words " -name win11"),
        near_xml: stimer!(xml ""),
        near_words: stimer!(words " -name win10"),
    },
    Example {
        rule: "rtc-slew",
        xml: "<clock offset='localtime'><timer name='rtc' tickpolicy='catchup'/></clock>",
        words: "-accel kvm -rtc base=localtime,driftfix=slew",
        near_xml: "<clock offset='localtime'><timer name='rtc' tickpolicy='delay'/></clock>",
        near_words: stimer!(words " -rtc base=localtime,driftfix=slew"),
    },
    Example {
        rule: "rtc-periodic",
        xml: "<clock offset='localtime'/>",
        words: "-accel kvm -M pc,hpet=off",
        near_xml: stimer!(xml ""),
        near_words: "-accel kvm -M pc",
    },
    Example {
        rule: "hpet",
        xml: "<os><type machine='pc-q35-10.0'>hvm</type></os>",
        words: "-M q35",
        near_xml: "<features><acpi/></features><clock><timer name='hpet' present='no'/></clock>",
        near_words: "-M microvm",
    },
    Example {
        rule: "no-lapic",
        xml: "<os><kernel>k</kernel><cmdline>quiet nolapic</cmdline></os>",
        words: "-cpu qemu64,-apic",
        near_xml: "<os><kernel>k</kernel><cmdline>apic=debug</cmdline></os>",
        near_words: "-append nolapicx",
    },
    Example {
        rule: "no-arat",
        xml: "",
        words: "-M microvm,pit=off -cpu qemu64,+x2apic",
        near_xml: "",
        near_words: "-M microvm,pit=off -cpu qemu64,+arat",
    },
    Example {
        rule: "kvmclock",
        xml: "<os><kernel>k</kernel></os><clock><timer name='kvmclock' present='no'/></clock>",
        words: "-accel kvm -cpu host,-kvmclock",
        near_xml: "<clock offset='localtime'><timer name='kvmclock' present='no'/></clock>",
        near_words: "-accel kvm -cpu host,-kvmclock,+invtsc",
    },
    Example {
        rule: "haltpoll",
        xml: "<features><kvm><hint-dedicated state='on'/></kvm></features>",
        words: "-accel kvm -cpu host,kvm-hint-dedicated=on",
        near_xml: "<cputune><vcpupin vcpu='0' cpuset='1'/></cputune><features><kvm>\
                   <hint-dedicated state='on'/></kvm></features>",
        near_words: "-accel kvm -cpu host,kvm-hint-dedicated=off",
    },
    Example {
        rule: "poll-control",
        xml: "<vcpu>1</vcpu><cputune><vcpupin vcpu='0' cpuset='1'/></cputune><features><kvm>\
              <hint-dedicated state='on'/><poll-control state='on'/></kvm></features>",
        words: "-accel kvm -cpu host,+kvm-poll-control -append cpuidle_haltpoll.force=1",
        near_xml: "<features><kvm><poll-control state='on'/></kvm></features>",
        near_words: "-accel kvm -cpu host,+kvm-poll-control",
    },
    Example {
        rule: "cpu-pm",
        xml: "",
        words: "-overcommit mem-lock=off,cpu-pm=on",
        near_xml: "<cpu/>",
        near_words: "-overcommit cpu-pm=on -overcommit cpu-pm=off",
    },
    Example {
        rule: "halt-poll",
        xml: "<vcpu>1</vcpu>",
        words: "-accel kvm",
        near_xml: "",
        near_words: "-accel tcg",
    },
    Example {
        rule: "irqchip",
        xml: "<features><ioapic driver='qemu'/></features>",
        words: "-accel kvm -M q35,kernel_irqchip=split",
        near_xml: "<features><ioapic driver='qemu'/></features><devices><iommu \
                   model='intel'/></devices>",
        near_words: "-accel kvm -M q35,kernel_irqchip=split -device intel-iommu",
    },
    Example {
        rule: "nohz",
        xml: "<os><kernel>k</kernel><cmdline>ro nohz=off</cmdline></os>",
        words: "-append nohz=off",
        near_xml: "<os><kernel>k</kernel><cmdline>ro nohz_full=1</cmdline></os>",
        near_words: "-append nohz=on",
    },
    Example {
        rule: "idle-poll",
        xml: "<os><kernel>k</kernel><cmdline>idle=poll</cmdline></os>",
        words: "-M pc,append=idle=poll",
        near_xml: "<os><kernel>k</kernel><cmdline>idle=halt</cmdline></os>",
        near_words: "-append xidle=poll",
    },
    Example {
        rule: "clocksource",
        xml: "<os><kernel>k</kernel><cmdline>clocksource=acpi_pm</cmdline></os>",
        words: "-append clocksource=hpet",
        near_xml: "<os><kernel>k</kernel><cmdline>clocksource=tsc</cmdline></os>",
        near_words: "-append clocksource=kvm-clock",
    },
    Example {
        rule: "ksm",
        xml: "<memoryBacking/>",
        words: "-m 1G",
        near_xml: "<memoryBacking><nosharepages/></memoryBacking>",
        near_words: "-M pc,mem-merge=off",
    },
    Example {
        rule: "thp",
        xml: "<memoryBacking/>",
        words: "-m 1G",
        near_xml: "",
        near_words: "",
    },
    Example {
        rule: "idle-unread",
        xml: "<x:commandline xmlns:x='http://libvirt.org/schemas/domain/qemu/1.0'/>",
        words: "-readconfig more.cfg",
        near_xml: "<commandline/>",
        near_words: "-writeconfig more.cfg",
    },
    Example {
        rule: "usb-uhci",
        xml: "<devices><controller type='usb' index='0' model='piix3-uhci'><address type='pci' \
              function='0x2'/></controller><input type='tablet' bus='usb'><address type='usb' \
              bus='0' port='1'/></input></devices>",
        words: "-usb -device usb-tablet,bus=usb-bus.0,port=1",
        near_xml: "<devices><controller type='usb' index='0' model='qemu-xhci'/><input \
                   type='tablet' bus='usb'/></devices>",
        near_words: "-M q35 -usb -device usb-tablet",
    },
    Example {
        rule: "balloon-stats",
        xml: "<devices><memballoon model='virtio'><stats period='1'/></memballoon></devices>",
        words: "-device virtio-balloon-pci,guest-stats-polling-interval=2",
        near_xml: "<devices><memballoon model='virtio'><stats period='10'/></memballoon></devices>",
        near_words: "-device virtio-balloon-pci,guest-stats-polling-interval=0",
    },
    Example {
        rule: "iothread-poll",
        xml: "<iothreadids><iothread id='1'><poll max='10000000' grow='2'/></iothread>\
              </iothreadids>",
        words: r#"-object {"qom-type":"iothread","id":"io1","poll-max-ns":10000000}"#,
        near_xml: "<iothreadids><iothread id='1'><poll max='32768'/></iothread></iothreadids>",
        near_words: "-object iothread,id=io1,poll-max-ns=0",
    },
    Example {
        rule: "vhost-poll",
        xml: "",
        words: "-netdev tap,id=n,vhost=on,poll-us=50",
        near_xml: "<devices/>",
        near_words: "-netdev tap,id=n,vhost=on,poll-us=0",
    },
    Example {
        rule: "display-client",
        xml: "<devices><graphics type='vnc'/><video><model type='vga'/></video></devices>",
        words: "-device VGA -vnc :1",
        near_xml: "<devices><video><model type='vga'/></video></devices>",
        near_words: "-nodefaults -vnc :1",
    },
    Example {
        rule: "cdrom",
        xml: "<devices><disk device='cdrom'><target dev='sda' bus='sata'/></disk></devices>",
        words: "-nodefaults -drive if=ide,media=cdrom",
        near_xml: "<devices><disk device='disk'><target dev='sda' bus='sata'/></disk></devices>",
        near_words: "-nodefaults -hda disk.img",
    },
    Example {
        rule: "thread-names",
        xml: "",
        words: "-name web",
        near_xml: "<name>web</name>",
        near_words: "-name web,debug-threads=on",
    },
    Example {
        rule: "emulated-io",
        xml: "<devices><disk type='file' device='disk'><target dev='sda' bus='sata'/></disk>\
              <interface type='user'><model type='e1000e'/></interface></devices>",
        words: "-drive if=ide,file=a.img -nic user,model=rtl8139",
        near_xml: "<devices><disk type='file' device='disk'><target dev='vda' bus='virtio'/></disk>\
                   <disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>\
                   <interface type='user'><model type='virtio'/></interface><hostdev type='pci'/>\
                   </devices>",
        near_words: "-drive if=virtio,file=a.img -cdrom b.iso -nic user,model=virtio",
    },
    Example {
        rule: "vhost-off",
        xml: "<devices><interface type='bridge'><model type='virtio'/><driver name='qemu' \
              queues='2'/></interface></devices>",
        words: "-accel kvm -netdev tap,id=n,ifname=tap0 -device virtio-net-pci,netdev=n",
        near_xml: "<devices><interface type='bridge'><model type='virtio'/><driver queues='2'/>\
                   </interface><interface type='bridge'><model type='e1000'/><driver \
                   name='qemu'/></interface><interface type='user'><model type='virtio'/><driver \
                   name='qemu'/></interface></devices>",
        near_words: "-accel kvm -netdev tap,id=n,vhost=on -device virtio-net-pci,netdev=n -netdev \
                     tap,id=m,vhostfds=5:6 -device virtio-net-pci,netdev=m -netdev user,id=u \
                     -device virtio-net-pci,netdev=u -netdev tap,id=e -device e1000,netdev=e",
    },
    Example {
        rule: "audio",
        xml: "<devices><sound model='ich9'/><audio id='1' type='pulseaudio' \
              timerPeriod='1000'/></devices>",
        words: "-device ich9-intel-hda -device hda-duplex,audiodev=a -audiodev \
                pa,id=a,timer-period=1000",
        near_xml: "<devices><sound model='ich9'/><audio id='1' type='spice'/></devices>",
        near_words: "-device ich9-intel-hda -device hda-duplex,audiodev=a -audiodev \
                     pa,id=a,timer-period=10000",
    },
];
