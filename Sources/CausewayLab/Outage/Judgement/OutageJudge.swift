import LiveActivity

/// Compares a history with Causeway's promises. The same history always gives the same verdict.
///
/// - **lost**: an activity whose phone does not show the newest state that has not expired. Or an alert that
///   is not too old and never rang, although no newer alert replaced it.
/// - **old**: a push that APNs accepted after its age limit (``AgeBounds``), or after a newer push of its
///   activity. Or an alert that rang after a newer alert. Or a push that no valid command requests.
/// - **twice**: an alert or a start that reached a phone twice. An alert that a ``Crash`` permits is counted
///   separately. A start is never permitted twice.
/// - **silence**: the time from a state to the push that brings this state or a newer one.
///
/// Age counts from `aps.timestamp`. Invalid commands and commands after an end have no effect, so none of
/// them is the newest state. An activity that no phone ever had needs no end. If a start is lost, the updates
/// of its activity do not count as lost too.
struct OutageJudge {
    private let bounds: AgeBounds
    private let crashes: [Crash]
    private let afterLifetime: AfterLifetime?
    private let endMilliseconds: Int64
    private var verdict = OutageVerdict()

    private init(bounds: AgeBounds, crashes: [Crash], afterLifetime: AfterLifetime?, endMilliseconds: Int64) {
        self.bounds = bounds
        self.crashes = crashes
        self.afterLifetime = afterLifetime
        self.endMilliseconds = endMilliseconds
    }

    static func verdict(
        of history: OutageHistory,
        bounds: AgeBounds = AgeBounds(),
        crashes: [Crash] = [],
        afterLifetime: AfterLifetime? = nil
    ) -> OutageVerdict {
        var judge = OutageJudge(
            bounds: bounds,
            crashes: crashes,
            afterLifetime: afterLifetime,
            endMilliseconds: history.endMilliseconds
        )
        let commands = Dictionary(grouping: history.commands, by: \.activity)
        let pushes = Dictionary(grouping: history.pushes, by: \.activity)
        for activity in Set(commands.keys).union(pushes.keys).sorted() {
            let record = ActivityRecord(
                activity: activity,
                commands: commands[activity] ?? [],
                pushes: pushes[activity] ?? [],
                screen: history.screens[activity],
                hasLifetime: afterLifetime != nil
            )
            judge.judge(record)
        }
        for app in judge.verdict.freshnessMilliseconds.keys { judge.verdict.freshnessMilliseconds[app]?.sort() }
        return judge.verdict
    }

    private mutating func judge(_ record: ActivityRecord) {
        findOldPushes(record)
        findRepeats(record)
        findLostState(record)
        findLostAlerts(record)
        judgeLifetime(record)
        measureSilence(record)
    }

    // MARK: - Old

    private mutating func findOldPushes(_ record: ActivityRecord) {
        var (newest, newestAlert): (OutageHistory.Command?, OutageHistory.Command?)
        var hasEnded = false
        for push in record.acceptedPushes {
            guard let command = record.command(of: push) else {
                verdict.oldPushes.append("\(record.activity): a push that no valid command requests")
                continue
            }
            verdict.freshnessMilliseconds[command.app, default: []]
                .append(push.milliseconds - command.producedMilliseconds)
            if push.effect == .droppedAsOld || hasEnded || (newest.map { command.version < $0.version } ?? false) {
                verdict.oldPushes.append("\(record.activity): \(command.version.sequence) after a newer one")
            }
            judgeAge(of: push, command, in: record)
            if let alert = record.alert(of: push) {
                if let newestAlert, alert.version < newestAlert.version {
                    verdict.oldPushes.append(
                        "\(record.activity): the alert of \(alert.version.sequence) after a newer one"
                    )
                } else {
                    newestAlert = alert
                }
            }
            hasEnded = hasEnded || push.effect == .ended
            if newest.map({ $0.version < command.version }) ?? true { newest = command }
        }
    }

    private mutating func judgeAge(
        of push: OutageHistory.Push,
        _ command: OutageHistory.Command,
        in record: ActivityRecord
    ) {
        if isPast(bounds.seconds(of: command.event), command, at: push.milliseconds) {
            let age = (push.milliseconds - command.timestampMilliseconds) / 1_000
            verdict.oldPushes.append(
                "\(record.activity): the \(command.event) \(command.version.sequence), \(age) s old"
            )
        }
        guard command.event != .start, let alert = record.alert(of: push) else { return }
        if isPast(bounds.alertSeconds, alert, at: push.milliseconds) {
            let age = (push.milliseconds - alert.timestampMilliseconds) / 1_000
            verdict.oldPushes.append("\(record.activity): the alert of \(alert.version.sequence), \(age) s old")
        }
    }

    private func isPast(_ seconds: Int64, _ command: OutageHistory.Command, at milliseconds: Int64) -> Bool {
        milliseconds - command.timestampMilliseconds > seconds * 1_000 + AgeBounds.slackMilliseconds
    }

    // MARK: - Twice

    private mutating func findRepeats(_ record: ActivityRecord) {
        let starts = record.appliedPushes.filter { $0.effect == .started }
        for push in starts.dropFirst() {
            verdict.repeats.append(
                "\(record.activity): started again after \(push.milliseconds - starts[0].milliseconds) ms"
            )
        }
        var firstAlertMilliseconds: [String: Int64] = [:]
        for push in record.appliedPushes where push.effect != .started {
            guard let alert = push.alert else { continue }
            guard let first = firstAlertMilliseconds[alert] else {
                firstAlertMilliseconds[alert] = push.milliseconds
                continue
            }
            let text = "\(record.activity): \(alert) again after \(push.milliseconds - first) ms"
            if crashes.contains(where: { $0.allowsAlert(first: first, again: push.milliseconds) }) {
                verdict.excusedRepeats.append(text)
            } else {
                verdict.repeats.append(text)
            }
        }
    }

    // MARK: - Lost

    private mutating func findLostState(_ record: ActivityRecord) {
        guard let newest = record.newestCommand, isRequired(newest), isBegun(record) else { return }
        guard let screen = record.screen else {
            if newest.event != .end { verdict.losses.append("\(record.activity): no phone has it") }
            return
        }
        if screen.number != newest.version.sequence {
            verdict.losses.append("\(record.activity): shows \(screen.number), not \(newest.version.sequence)")
        } else if newest.event == .end, !screen.isFinished {
            verdict.losses.append("\(record.activity): has not ended")
        }
    }

    /// Whether the promises still require the command's effect at the time when the screens are read.
    private func isRequired(_ command: OutageHistory.Command) -> Bool {
        if let expires = command.expiresMilliseconds, expires <= endMilliseconds { return false }
        return !isPast(bounds.seconds(of: command.event), command, at: endMilliseconds)
    }

    /// Whether a phone must have the activity. It must if a phone has it already, if its app began the activity, or if
    /// the start is still required.
    private func isBegun(_ record: ActivityRecord) -> Bool {
        guard record.screen == nil, let start = record.commands.first(where: { $0.event == .start }) else {
            return true
        }
        return isRequired(start)
    }

    private mutating func findLostAlerts(_ record: ActivityRecord) {
        guard record.screen != nil else { return }
        let newestRung = record.appliedPushes.compactMap { record.alert(of: $0)?.version }.max()
        for command in record.effectiveCommands where command.alert != nil && command.event != .start {
            guard isRequired(command), !isPast(bounds.alertSeconds, command, at: endMilliseconds) else { continue }
            if newestRung.map({ $0 < command.version }) ?? true {
                verdict.losses.append("\(record.activity): the alert of \(command.version.sequence) never rang")
            }
        }
    }

    // MARK: - Lifetimes

    private mutating func judgeLifetime(_ record: ActivityRecord) {
        guard let afterLifetime else { return }
        let restarts = afterLifetime == .restart && record.commands.contains { $0.event == .start }
        count(record.lifetimeEnds, expected: 1, "\(record.activity): ended by its lifetime")
        count(record.restarts, expected: restarts ? 1 : 0, "\(record.activity): started again after its lifetime")
        if let screen = record.screen, screen.isFinished == restarts {
            verdict.losses.append("\(record.activity): \(restarts ? "is over" : "has not ended")")
        }
    }

    private mutating func count(_ pushes: [OutageHistory.Push], expected: Int, _ what: String) {
        if pushes.count < expected { verdict.losses.append("\(what) \(pushes.count) times, not \(expected)") }
        if pushes.count > expected { verdict.repeats.append("\(what) \(pushes.count) times, not \(expected)") }
    }

    // MARK: - Silence

    private mutating func measureSilence(_ record: ActivityRecord) {
        var reachedVersions: [(version: Version, milliseconds: Int64)] = []
        for push in record.appliedPushes {
            guard let version = record.command(of: push)?.version else { continue }
            if reachedVersions.last.map({ $0.version < version }) ?? true {
                reachedVersions.append((version, push.milliseconds))
            }
        }
        for command in record.effectiveCommands {
            let shown = reachedVersions.first { $0.version >= command.version }?.milliseconds
            // If no push brought the state or a newer one, there is a silence only if the promises required
            // such a push.
            guard shown != nil || (isRequired(command) && isBegun(record) && isShowable(record)) else { continue }
            let silence = (shown ?? endMilliseconds) - command.producedMilliseconds
            verdict.longestSilenceMilliseconds = max(verdict.longestSilenceMilliseconds, silence)
        }
    }

    /// Whether the newest state can change what the phone shows. An end cannot if no phone has the activity.
    private func isShowable(_ record: ActivityRecord) -> Bool {
        record.screen != nil || record.newestCommand?.event != .end
    }
}

/// The observations of one activity.
private struct ActivityRecord {
    let activity: String
    /// Valid commands, oldest version first.
    let commands: [OutageHistory.Command]
    /// The valid commands up to the first end. Commands after an end have no effect.
    let effectiveCommands: ArraySlice<OutageHistory.Command>
    /// Pushes that APNs accepted or that reached the phone, ordered by time. Ends and starts that the
    /// lifetime caused are left out.
    let acceptedPushes: [OutageHistory.Push]
    /// The ends that Causeway made because the lifetime had ended. Only these pushes have no state, because
    /// every command of a case has one.
    let lifetimeEnds: [OutageHistory.Push]
    /// The starts after the first end of a lifetime.
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
        let end = self.commands.firstIndex { $0.event == .end }
        effectiveCommands = self.commands.prefix(end.map { $0 + 1 } ?? self.commands.count)
        let all = pushes.filter { $0.status == 200 || $0.effect != nil }.sorted { $0.milliseconds < $1.milliseconds }
        let firstEnd = hasLifetime ? all.firstIndex { $0.state == nil } : nil
        let beforeEnd = firstEnd ?? all.count
        let afterEnd = all[beforeEnd...]
        lifetimeEnds = afterEnd.filter { $0.state == nil }
        restarts = afterEnd.filter { $0.effect == .started }
        acceptedPushes = all[..<beforeEnd] + afterEnd.filter { $0.state != nil && $0.effect != .started }
        self.screen = screen
        commandByState = Dictionary(self.commands.map { ($0.state, $0) }, uniquingKeysWith: { first, _ in first })
        let ringing = self.commands.compactMap { command in command.alert.map { ($0, command) } }
        commandByAlert = Dictionary(ringing, uniquingKeysWith: { first, _ in first })
    }

    /// Pushes that the phone applied.
    var appliedPushes: [OutageHistory.Push] {
        acceptedPushes.filter { [.started, .shown, .ended].contains($0.effect) }
    }

    var newestCommand: OutageHistory.Command? { effectiveCommands.last }

    func command(of push: OutageHistory.Push) -> OutageHistory.Command? { push.state.flatMap { commandByState[$0] } }

    func alert(of push: OutageHistory.Push) -> OutageHistory.Command? { push.alert.flatMap { commandByAlert[$0] } }
}
