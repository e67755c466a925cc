import LiveActivity

/// Compares a history with Causeway's promises. The same history always gives the same findings.
///
/// - **lost**: a phone does not show its activity's newest state, although this state has not expired. Or an alert
///   never rang, although it is not too old and no newer alert replaced it.
/// - **old**: APNs accepted a push after its age limit (``AgeLimits``), or after a newer push of its activity. Or an
///   alert rang after a newer one. Or no valid command requests the push.
/// - **twice**: a start or an alert reached a phone twice. Only repeated alerts can be permitted
///   (``AlertRepeatCause``); they are counted separately.
/// - **silence**: the time from a state to the push that brings this state or a newer one.
///
/// Age counts from `aps.timestamp`. No phone must show the state of an invalid command or of a command after an end. An
/// activity that no phone ever had needs no end. If a start is lost, the updates after it do not count as lost too.
struct OutageChecker {
    private let ageLimits: AgeLimits
    private let alertRepeatCauses: [AlertRepeatCause]
    private let afterLifetime: AfterLifetime?
    private let screensReadAtMilliseconds: Int64
    private var findings = OutageFindings()

    private init(
        ageLimits: AgeLimits,
        alertRepeatCauses: [AlertRepeatCause],
        afterLifetime: AfterLifetime?,
        screensReadAtMilliseconds: Int64
    ) {
        self.ageLimits = ageLimits
        self.alertRepeatCauses = alertRepeatCauses
        self.afterLifetime = afterLifetime
        self.screensReadAtMilliseconds = screensReadAtMilliseconds
    }

    static func findings(
        of history: OutageHistory,
        ageLimits: AgeLimits = AgeLimits(),
        alertRepeatCauses: [AlertRepeatCause] = [],
        afterLifetime: AfterLifetime? = nil
    ) -> OutageFindings {
        var checker = OutageChecker(
            ageLimits: ageLimits,
            alertRepeatCauses: alertRepeatCauses,
            afterLifetime: afterLifetime,
            screensReadAtMilliseconds: history.screensReadAtMilliseconds
        )
        let commands = Dictionary(grouping: history.commands, by: \.activity)
        let pushes = Dictionary(grouping: history.pushes, by: \.activity)
        for activity in Set(commands.keys).union(pushes.keys).sorted() {
            let observations = ActivityObservations(
                activity: activity,
                commands: commands[activity] ?? [],
                pushes: pushes[activity] ?? [],
                screen: history.screens[activity],
                hasLifetime: afterLifetime != nil
            )
            checker.check(observations)
        }
        for app in checker.findings.freshnessMillisecondsByApp.keys {
            checker.findings.freshnessMillisecondsByApp[app]?.sort()
        }
        return checker.findings
    }

    private mutating func check(_ observations: ActivityObservations) {
        reportOldPushes(observations)
        reportRepeats(observations)
        reportLostState(observations)
        reportLostAlerts(observations)
        checkLifetime(observations)
        measureSilence(observations)
    }

    // MARK: - Old pushes and alerts

    private mutating func reportOldPushes(_ observations: ActivityObservations) {
        var (newest, newestAlert): (OutageHistory.Command?, OutageHistory.Command?)
        var hasEnded = false
        for push in observations.acceptedPushes {
            guard let command = observations.command(of: push) else {
                findings.oldPushes.append("\(observations.activity): a push that no valid command requests")
                continue
            }
            findings.freshnessMillisecondsByApp[command.app, default: []]
                .append(push.arrivedAtMilliseconds - command.producedAtMilliseconds)
            if push.effect == .droppedAsOld || hasEnded || (newest.map { command.version < $0.version } ?? false) {
                findings.oldPushes.append("\(observations.activity): \(command.version.sequence) after a newer one")
            }
            reportExceededAges(of: push, command, in: observations)
            if let alert = observations.alertCommand(of: push) {
                if let newestAlert, alert.version < newestAlert.version {
                    findings.oldPushes.append(
                        "\(observations.activity): the alert of \(alert.version.sequence) after a newer one"
                    )
                } else {
                    newestAlert = alert
                }
            }
            hasEnded = hasEnded || push.effect == .ended
            if newest.map({ $0.version < command.version }) ?? true { newest = command }
        }
    }

    private mutating func reportExceededAges(
        of push: OutageHistory.Push,
        _ command: OutageHistory.Command,
        in observations: ActivityObservations
    ) {
        if isOlder(command, thanSeconds: ageLimits.ageSecondsMax(of: command.event), at: push.arrivedAtMilliseconds) {
            let ageSeconds = (push.arrivedAtMilliseconds - command.timestampMilliseconds) / 1_000
            findings.oldPushes.append(
                "\(observations.activity): the \(command.event) \(command.version.sequence), \(ageSeconds) s old"
            )
        }
        guard command.event != .start, let alert = observations.alertCommand(of: push) else { return }
        if isOlder(alert, thanSeconds: ageLimits.alertAgeSecondsMax, at: push.arrivedAtMilliseconds) {
            let ageSeconds = (push.arrivedAtMilliseconds - alert.timestampMilliseconds) / 1_000
            findings.oldPushes.append(
                "\(observations.activity): the alert of \(alert.version.sequence), \(ageSeconds) s old"
            )
        }
    }

    /// Whether the age of a command at a time (UNIX milliseconds) exceeds `seconds` by more than the tolerance.
    private func isOlder(_ command: OutageHistory.Command, thanSeconds seconds: Int64, at milliseconds: Int64) -> Bool {
        milliseconds - command.timestampMilliseconds > seconds * 1_000 + AgeLimits.toleranceMilliseconds
    }

    // MARK: - Alerts and starts that reached a phone twice

    private mutating func reportRepeats(_ observations: ActivityObservations) {
        let starts = observations.appliedPushes.filter { $0.effect == .started }
        for push in starts.dropFirst() {
            findings.repeats.append(
                """
                \(observations.activity): started again after \
                \(push.arrivedAtMilliseconds - starts[0].arrivedAtMilliseconds) ms
                """
            )
        }
        var firstAtMillisecondsByAlert: [String: Int64] = [:]
        for push in observations.appliedPushes where push.effect != .started {
            guard let alert = push.alertTitle else { continue }
            guard let firstAtMilliseconds = firstAtMillisecondsByAlert[alert] else {
                firstAtMillisecondsByAlert[alert] = push.arrivedAtMilliseconds
                continue
            }
            let text =
                "\(observations.activity): \(alert) again after \(push.arrivedAtMilliseconds - firstAtMilliseconds) ms"
            if alertRepeatCauses.contains(where: {
                $0.allowsRepeatedAlert(
                    firstAtMilliseconds: firstAtMilliseconds,
                    againAtMilliseconds: push.arrivedAtMilliseconds
                )
            }) {
                findings.permittedAlertRepeats.append(text)
            } else {
                findings.repeats.append(text)
            }
        }
    }

    // MARK: - Lost states and alerts

    private mutating func reportLostState(_ observations: ActivityObservations) {
        guard let newest = observations.newestCommand, isRequired(newest), mustBeOnPhone(observations) else { return }
        guard let screen = observations.screen else {
            if newest.event != .end { findings.losses.append("\(observations.activity): no phone has it") }
            return
        }
        if screen.sequence != newest.version.sequence {
            findings.losses.append("\(observations.activity): shows \(screen.sequence), not \(newest.version.sequence)")
        } else if newest.event == .end, !screen.isFinished {
            findings.losses.append("\(observations.activity): has not ended")
        }
    }

    /// Whether the command should still have its effect when the screens are read: it has neither expired nor exceeded
    /// its age limit.
    private func isRequired(_ command: OutageHistory.Command) -> Bool {
        if let expiresAtMilliseconds = command.expiresAtMilliseconds,
            expiresAtMilliseconds <= screensReadAtMilliseconds
        {
            return false
        }
        return !isOlder(command, thanSeconds: ageLimits.ageSecondsMax(of: command.event), at: screensReadAtMilliseconds)
    }

    /// Whether the activity must be on a phone. False only if no phone has had it, and its start command has expired or
    /// is too old.
    private func mustBeOnPhone(_ observations: ActivityObservations) -> Bool {
        guard observations.screen == nil, let start = observations.commands.first(where: { $0.event == .start }) else {
            return true
        }
        return isRequired(start)
    }

    private mutating func reportLostAlerts(_ observations: ActivityObservations) {
        guard observations.screen != nil else { return }
        let newestRungAlertVersion = observations.appliedPushes
            .compactMap { observations.alertCommand(of: $0)?.version }
            .max()
        for command in observations.commandsUntilFirstEnd where command.alertTitle != nil && command.event != .start {
            guard isRequired(command),
                !isOlder(command, thanSeconds: ageLimits.alertAgeSecondsMax, at: screensReadAtMilliseconds)
            else {
                continue
            }
            if newestRungAlertVersion.map({ $0 < command.version }) ?? true {
                findings.losses.append("\(observations.activity): the alert of \(command.version.sequence) never rang")
            }
        }
    }

    // MARK: - Ends and restarts by lifetimes

    /// Reports the ends and restarts after a lifetime if there are fewer or more than there must be. Also reports a
    /// phone on which the activity is then active or over, although it must not be.
    private mutating func checkLifetime(_ observations: ActivityObservations) {
        guard let afterLifetime else { return }
        let shouldRestart = afterLifetime == .restart && observations.commands.contains { $0.event == .start }
        checkPushCount(observations.lifetimeEnds, expectedCount: 1, "\(observations.activity): ended by its lifetime")
        checkPushCount(
            observations.restarts,
            expectedCount: shouldRestart ? 1 : 0,
            "\(observations.activity): started again after its lifetime"
        )
        if let screen = observations.screen, screen.isFinished == shouldRestart {
            findings.losses.append("\(observations.activity): \(shouldRestart ? "is over" : "has not ended")")
        }
    }

    private mutating func checkPushCount(_ pushes: [OutageHistory.Push], expectedCount: Int, _ description: String) {
        let finding = "\(description) \(pushes.count) times, not \(expectedCount)"
        if pushes.count < expectedCount { findings.losses.append(finding) }
        if pushes.count > expectedCount { findings.repeats.append(finding) }
    }

    // MARK: - The longest time from a command to its push

    private mutating func measureSilence(_ observations: ActivityObservations) {
        var shownVersions: [(version: Version, atMilliseconds: Int64)] = []
        for push in observations.appliedPushes {
            guard let version = observations.command(of: push)?.version else { continue }
            if shownVersions.last.map({ $0.version < version }) ?? true {
                shownVersions.append((version, push.arrivedAtMilliseconds))
            }
        }
        for command in observations.commandsUntilFirstEnd {
            let shownAtMilliseconds = shownVersions.first { $0.version >= command.version }?.atMilliseconds
            // A silence lasts from a command to the first push with its state or a newer one. Without such a push, it
            // lasts until the screens are read, and counts only if Causeway had to send a push.
            guard
                shownAtMilliseconds != nil
                    || (isRequired(command) && mustBeOnPhone(observations) && canChangeScreen(observations))
            else { continue }
            let silenceMilliseconds =
                (shownAtMilliseconds ?? screensReadAtMilliseconds) - command.producedAtMilliseconds
            findings.longestSilenceMilliseconds = max(findings.longestSilenceMilliseconds, silenceMilliseconds)
        }
    }

    /// Whether the newest state can change what the phone shows. An end changes nothing if no phone has the activity.
    private func canChangeScreen(_ observations: ActivityObservations) -> Bool {
        observations.screen != nil || observations.newestCommand?.event != .end
    }
}

/// One activity's part of the history, without invalid commands and refused pushes.
private struct ActivityObservations {
    let activity: String
    /// Valid commands, oldest version first.
    let commands: [OutageHistory.Command]
    /// The valid commands up to the first end. Commands after an end have no effect.
    let commandsUntilFirstEnd: ArraySlice<OutageHistory.Command>
    /// Pushes that APNs accepted or that reached the phone, ordered by time, without the ends and restarts that
    /// Causeway made because the lifetime was over.
    let acceptedPushes: [OutageHistory.Push]
    /// The ends that Causeway made because the lifetime was over. They are the pushes without a state, because every
    /// command of a case has a state.
    let lifetimeEnds: [OutageHistory.Push]
    /// The starts after the first of `lifetimeEnds`.
    let restarts: [OutageHistory.Push]
    let screen: OutageHistory.Screen?
    private let commandByState: [String: OutageHistory.Command]
    private let commandByAlert: [String: OutageHistory.Command]

    init(
        activity: String,
        commands: [OutageHistory.Command],
        pushes: [OutageHistory.Push],
        screen: OutageHistory.Screen?,
        hasLifetime: Bool
    ) {
        self.activity = activity
        self.commands = commands.filter(\.isValid).sorted { $0.version < $1.version }
        let firstEndIndex = self.commands.firstIndex { $0.event == .end }
        commandsUntilFirstEnd = self.commands.prefix(firstEndIndex.map { $0 + 1 } ?? self.commands.count)
        let effectivePushes = pushes.filter { $0.status == 200 || $0.effect != nil }
            .sorted { $0.arrivedAtMilliseconds < $1.arrivedAtMilliseconds }
        let firstLifetimeEndIndex = hasLifetime ? effectivePushes.firstIndex { $0.stateDigest == nil } : nil
        let pushCountBeforeLifetimeEnd = firstLifetimeEndIndex ?? effectivePushes.count
        let pushesSinceLifetimeEnd = effectivePushes[pushCountBeforeLifetimeEnd...]
        lifetimeEnds = pushesSinceLifetimeEnd.filter { $0.stateDigest == nil }
        restarts = pushesSinceLifetimeEnd.filter { $0.effect == .started }
        acceptedPushes =
            effectivePushes[..<pushCountBeforeLifetimeEnd]
            + pushesSinceLifetimeEnd.filter { $0.stateDigest != nil && $0.effect != .started }
        self.screen = screen
        commandByState = Dictionary(self.commands.map { ($0.stateDigest, $0) }, uniquingKeysWith: { first, _ in first })
        let alertCommands = self.commands.compactMap { command in command.alertTitle.map { ($0, command) } }
        commandByAlert = Dictionary(alertCommands, uniquingKeysWith: { first, _ in first })
    }

    /// Pushes that the phone applied.
    var appliedPushes: [OutageHistory.Push] {
        acceptedPushes.filter { [.started, .shown, .ended].contains($0.effect) }
    }

    var newestCommand: OutageHistory.Command? { commandsUntilFirstEnd.last }

    func command(of push: OutageHistory.Push) -> OutageHistory.Command? {
        push.stateDigest.flatMap { commandByState[$0] }
    }

    /// Returns the command whose alert the push carries; nil if the push has no alert of a valid command.
    func alertCommand(of push: OutageHistory.Push) -> OutageHistory.Command? {
        push.alertTitle.flatMap { commandByAlert[$0] }
    }
}
