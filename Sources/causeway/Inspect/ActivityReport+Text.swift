import ActivityStore
import LiveActivity
import Numbers

extension ActivityReport {
    private static let contentWidth = 200

    /// Returns the report as text, with one line for each question that an operator asks during an incident.
    func lines() -> [String] {
        var lines = LabelledLines()
        lines.add("activity", "\(activity) of \(app)")
        lines.add("token", tokenText)
        lines.add("newest", newestText)
        lines.add("shows", shownText)
        addHeld(to: &lines)
        lines.add("pace", paceText)
        lines.add("budget", "\(budget.text(of: "pushes of priority 10", now: nowMilliseconds)); policy \(policy)")
        lines.add("life", lifeText)
        return lines.lines
    }

    private func ago(_ moment: Int64) -> String {
        "\(TimeText.relative(moment, to: nowMilliseconds)) (\(TimeText.clock(moment, now: nowMilliseconds)))"
    }

    private var tokenText: String {
        guard let token else {
            return registeredAtMilliseconds.map { "none; the last was unregistered or retired \(ago($0))" }
                ?? "none has been registered"
        }
        let registered = registeredAtMilliseconds.map { ", registered \(ago($0))" } ?? ""
        let frequent = allowsFrequentUpdates ? "frequent updates allowed" : "no frequent updates"
        return "sha256 \(token.fingerprint), \(token.environment.name)\(registered), \(frequent)"
    }

    private var newestText: String {
        guard let newest else { return "no command has been admitted" }
        let version = newest.version
        let sequence = version.sequence == 0 ? "" : ", sequence \(version.sequence)"
        let age = TimeText.relative(UnixSeconds.milliseconds(ofSeconds: version.timestamp), to: nowMilliseconds)
        return "\(version.timestamp), \(age)\(sequence)\(newest.isEnd ? ", an end" : ""): \(newest.state.words)"
    }

    private var shownText: String {
        guard let sent else { return "nothing that was sent from here" }
        let push = "last push \(ago(sent.atMilliseconds)) as \(sent.timestamp)"
        guard let shownDigest else { return "\(push); what is shown is not known" }
        return "\(push); digest \(Hexadecimal.text(shownDigest))"
    }

    private func addHeld(to lines: inout LabelledLines) {
        guard let held else {
            return lines.add("waits", newest?.state == .waiting ? "the newest, in a worker" : "nothing")
        }
        let age = TimeText.relative(held.timestampMilliseconds, to: nowMilliseconds)
        let limit = held.expirationMilliseconds.map { ", or expires \(ago($0))" } ?? ""
        lines.add(
            "waits",
            "\(held.event) of \(age)\(held.carriesAlert ? " with an alert" : ""): \(reasonForHolding(held))\(limit)",
            held.contentState.map { "content-state \(Self.shortened($0.line))" } ?? "",
            held.alert.map { "alert \(Self.shortened($0.line))" } ?? ""
        )
    }

    private func reasonForHolding(_ held: HeldCommand) -> String {
        guard let newest, newest.version == held.version else {
            return "until the newest, which carries its alert, is known to have been sent"
        }
        return newest.state == .held ? "until a token registers" : "being sent, kept until the answer is known"
    }

    private static func shortened(_ text: String) -> String {
        text.count <= contentWidth ? text : "\(text.prefix(contentWidth))… (\(text.utf8.count) bytes; all with --json)"
    }

    private var paceText: String {
        let next =
            pace.nextPushAtMilliseconds.map { "the next \(TimeText.relative($0, to: nowMilliseconds))" }
            ?? "the next may go now"
        let stretch =
            pace.spacingDoublings == 0
            ? "" : ", stretched by 429s (level \(pace.spacingDoublings))"
        return "one push in \(TimeText.span(pace.spacingMilliseconds))\(stretch); \(next)"
    }

    private var lifeText: String {
        guard let end = updatesUntilMilliseconds else { return "not begun" }
        let birth = "began \(ago(end - Self.lifeMilliseconds))"
        if newest?.isEnd == true, lifetimeEndsMilliseconds != nil {
            return "\(birth); its lifetime has ended it"
        }
        if newest?.isEnd == true { return "\(birth); ended, only a start opens it again" }
        if let lifetimeEndsMilliseconds {
            return "\(birth); its lifetime ends at \(TimeText.clock(lifetimeEndsMilliseconds, now: nowMilliseconds))"
        }
        return end > nowMilliseconds
            ? "\(birth); updates until \(TimeText.clock(end, now: nowMilliseconds)), for \(TimeText.span(end - nowMilliseconds))"
            : "\(birth); its 8 hours are over, only an end is sent"
    }

    /// How long after an activity's start iOS accepts its updates: 8 hours. Later, Causeway sends only an
    /// end.
    static let lifeMilliseconds: Int64 = 28_800_000
}

extension ActivityInspection.State {
    var words: String {
        switch self {
        case .waiting: "waits in a worker, for its pace or a token"
        case .sending: "given out to be sent, the answer is not known yet"
        case .startSending: "start given out to be sent, the answer is not known yet"
        case .held: "held until a token registers"
        case .settled: "settled"
        case .notShown: "settled without having been shown"
        }
    }
}

extension ActivityReport.Budget {
    func text(of what: String, now: Int64) -> String {
        let kept =
            reserved == 0
            ? "" : left <= reserved ? ", all for alerts and ends" : ", \(reserved) of them for alerts and ends"
        let full = fullAtMilliseconds.map { "; full \(TimeText.relative($0, to: now))" } ?? ""
        return "\(left) of \(pushes) \(what) left\(left == 0 ? "" : kept)\(full)"
    }
}
