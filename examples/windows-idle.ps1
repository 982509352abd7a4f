<#
.SYNOPSIS
    Shows what costs an idle Windows guest, and changes it if asked to.
.DESCRIPTION
    Run it inside the guest, in an elevated PowerShell (5.1 or later):

        powershell -ExecutionPolicy Bypass -File windows-idle.ps1
        powershell -ExecutionPolicy Bypass -File windows-idle.ps1 -Apply

    Without -Apply nothing is changed. With -Apply timer settings of the boot entry that somebody
    set are removed, so that Windows chooses its timers, and the balanced power plan becomes active.
    Each change is asked for, and the command that undoes it is printed and written to a file. The
    boot configuration is exported before it is changed; it is left alone while BitLocker watches it.
    Virtualization-based security is shown and never changed: it protects the guest.
.PARAMETER Apply
    Change what is shown as costly. -Confirm:$false does not ask for each change, -WhatIf only
    prints them.
.LINK
    https://learn.microsoft.com/windows-hardware/drivers/devtest/bcdedit--set
    https://learn.microsoft.com/windows-hardware/design/device-experiences/powercfg-command-line-options
    https://learn.microsoft.com/windows/security/hardware-security/enable-virtualization-based-protection-of-code-integrity
#>
#Requires -RunAsAdministrator
[CmdletBinding(SupportsShouldProcess, ConfirmImpact = 'High')]
param([switch]$Apply)

Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$kept = Join-Path $env:ProgramData "windows-idle-$(Get-Date -Format yyyyMMdd-HHmmss)"
$exported = $false
$undo = @()
$costly = 0

# Runs a program of Windows; its messages are in the language of the system, its names are not.
function Invoke-Tool([string]$Program, [string[]]$Words) {
    $output = & $Program @Words 2>&1
    if ($LASTEXITCODE -ne 0) { throw "$Program $($Words -join ' ') failed: $output" }
    $output | ForEach-Object { "$_" }
}

function Show-Line([string]$Verdict, [string]$Name, [string]$Meaning) {
    '{0,-8} {1}' -f $Verdict, $Name
    "         $Meaning"
}

# Keeps a command that undoes a change, before the change is made.
function Save-Undo([string]$Command) {
    $script:undo += $Command
    $script:undo | Set-Content -Path "$kept.ps1" -Encoding UTF8
}

# Whether BitLocker protects the disk that Windows starts from; also if nobody can tell.
function Test-BitLocker {
    if (-not (Get-Command Get-BitLockerVolume -ErrorAction SilentlyContinue)) { return $false }
    try {
        (Get-BitLockerVolume -MountPoint $env:SystemDrive).ProtectionStatus -ne 'Off'
    } catch {
        $true
    }
}

# 1. Timers of the boot entry. None of them is set in a new Windows.
$timers = [ordered]@{
    useplatformclock   = 'performance counters are read from a timer that QEMU emulates'
    useplatformtick    = 'no synthetic timer is used, whatever the host offers (hv-stimer)'
    disabledynamictick = 'Windows ticks on while it is idle'
}
$entry = Invoke-Tool bcdedit @('/enum', '{current}')
foreach ($name in $timers.Keys) {
    $line = $entry | Where-Object { $_ -match "^$name\s+(\S+)" } | Select-Object -First 1
    if (-not $line) {
        Show-Line 'good' $name 'it is not set: Windows chooses'
        continue
    }
    $null = $line -match "^$name\s+(\S+)"
    $value = $Matches[1]
    if ($value -eq 'No') {
        Show-Line 'good' "$name $value" 'it is off'
        continue
    }
    if ($value -ne 'Yes') {
        Show-Line 'unknown' "$name $value" "if this word means yes: $($timers[$name])"
        continue
    }
    $costly++
    Show-Line 'costly' "$name $value" $timers[$name]
    if (-not $Apply) { continue }
    if (Test-BitLocker) {
        Show-Line 'left' $name ("BitLocker may ask for the recovery key; first: " +
            "Suspend-BitLocker -MountPoint $env:SystemDrive -RebootCount 1")
    } elseif ($PSCmdlet.ShouldProcess('boot entry {current}', "remove $name")) {
        if (-not $exported) {
            $null = Invoke-Tool bcdedit @('/export', "$kept.bcd")
            $exported = $true
            Save-Undo "bcdedit /import '$kept.bcd'"
        }
        $null = Invoke-Tool bcdedit @('/deletevalue', '{current}', $name)
        Show-Line 'changed' $name 'from the next start of Windows on'
    }
}

# 2. Virtualization-based security: a hypervisor in the guest, whose exits cost more than usual.
$states = @{ 0 = 'off'; 1 = 'enabled, and does not run'; 2 = 'runs' }
try {
    $guard = Get-CimInstance -Namespace root\Microsoft\Windows\DeviceGuard -ClassName Win32_DeviceGuard
    $state = [int]$guard.VirtualizationBasedSecurityStatus
    $integrity = @($guard.SecurityServicesRunning) -contains 2
    $text = "virtualization-based security: $($states[$state])"
    if ($integrity) { $text += ', with memory integrity (HVCI)' }
    if ($state -eq 2) {
        Show-Line 'note' $text ('nested virtualization: the guest leaves more often; it protects ' +
            'the guest, and is left as it is')
    } else {
        Show-Line 'good' $text 'no hypervisor runs in the guest'
    }
} catch {
    Show-Line 'unknown' 'virtualization-based security' "Win32_DeviceGuard says nothing: $_"
}

# 3. Power plan. What it costs a guest is not measured: compare with brisk idle measure.
$balanced = '381b4222-f694-41f0-9685-ff5bb260df2e'
$fast = @{
    '8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c' = 'high performance'
    'e9a42b02-d5df-448d-aa00-03f14749eb61' = 'ultimate performance'
}
$active = (Invoke-Tool powercfg @('/getactivescheme')) -join ' '
if ($active -match '([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})') {
    $plan = $Matches[1]
    if ($fast.ContainsKey($plan)) {
        $costly++
        Show-Line 'maybe' "power plan: $($fast[$plan])" 'it prefers speed to rest; measure with the balanced plan'
        if ($Apply -and $PSCmdlet.ShouldProcess('power plan', 'activate the balanced one')) {
            Save-Undo "powercfg /setactive $plan"
            $null = Invoke-Tool powercfg @('/setactive', $balanced)
            Show-Line 'changed' 'power plan: balanced' 'at once'
        }
    } else {
        Show-Line 'good' "power plan: $plan" 'none of the high-performance plans'
    }
} else {
    Show-Line 'unknown' 'power plan' $active
}

''
if ($undo.Count -gt 0) {
    "These commands undo what was changed; they are also in $kept.ps1:"
    $undo | ForEach-Object { "    $_" }
} elseif ($costly -eq 0) {
    'Nothing here costs an idle guest. What the host can change: brisk idle lint.'
} elseif (-not $Apply) {
    'Nothing was changed. -Apply changes it, and asks before each change.'
}
