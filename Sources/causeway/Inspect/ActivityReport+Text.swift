import ActivityStore
import LiveActivity
import Numbers

extension ActivityReport {
    private static let contentCharactersMax = 200

    /// Returns the report as text. Each question that an operator asks during an incident has a label and one or more
    /// lines.
    func lines() -> [String] {
        var lines = LabelledLines()
        lines.add("activity", "\(activity) of \(app)")
        lines.add("token", tokenText)
        lines.add("newest", newestVersionText)
        lines.add("shows", shownText)
        if audienceCount > 0 {
            lines.add(
                "audiences",
                "\(audienceCount); what came through an audience is not listed here: causeway inspect --audience NAME"
            )
        }
        addHeldCommand(to: &lines)
        lines.add("pace", paceText)
        lines.add(
            "budget",
            "\(budget.text(of: "pushes of priority 10", nowMilliseconds: nowMilliseconds)); policy \(policyName)"
        )
        lines.add("life", lifeText)
        return lines.lines
    }

    private func agoText(_ milliseconds: Int64) -> String {
        """
        \(TimeText.relative(milliseconds, to: nowMilliseconds)) \
        (\(TimeText.timeOfDay(milliseconds, nowMilliseconds: nowMilliseconds)))
        """
    }

    private var tokenText: String {
        guard let token else {
            return registeredAtMilliseconds.map {
                "none; the last token was unregistered \(agoText($0)), or was registered then and is dead now"
            } ?? "none has been registered"
        }
        let registeredText = registeredAtMilliseconds.map { ", registered \(agoText($0))" } ?? ""
        let frequentUpdatesText = allowsFrequentUpdates ? "frequent updates allowed" : "no frequent updates"
        return "sha256 \(token.fingerprint), \(token.environment.name)\(registeredText), \(frequentUpdatesText)"
    }

    private var newestVersionText: String {
        guard let newestVersion else { return "no command has been admitted" }
        let version = newestVersion.version
        let sequenceText = version.sequence == 0 ? "" : ", sequence \(version.sequence)"
        let age = TimeText.relative(UnixSeconds.milliseconds(ofSeconds: version.timestamp), to: nowMilliseconds)
        return
            """
            \(version.timestamp), \(age)\(sequenceText)\(newestVersion.isEnd ? ", an end" : ""): \
            \(newestVersion.phase.explanation)
            """
    }

    private var shownText: String {
        guard let lastSentVersion else { return "nothing that Causeway sent to this activity alone" }
        let pushText = "last push \(agoText(lastSentVersion.atMilliseconds)) as \(lastSentVersion.timestamp)"
        guard let shownDigest else { return "\(pushText); the shown state is not known" }
        return "\(pushText); digest \(Hexadecimal.text(shownDigest))"
    }

    private func addHeldCommand(to lines: inout LabelledLines) {
        guard let heldCommand else {
            return lines.add("waits", newestVersion?.phase == .waiting ? "the newest command, in a worker" : "nothing")
        }
        let age = TimeText.relative(heldCommand.timestampMilliseconds, to: nowMilliseconds)
        let expirationText = heldCommand.expiresAtMilliseconds.map { ", or expires \(agoText($0))" } ?? ""
        lines.add(
            "waits",
            """
            \(heldCommand.event) of \(age)\(heldCommand.hasAlert ? " with an alert" : ""): \
            \(reasonForHolding(heldCommand))\(expirationText)
            """,
            heldCommand.contentState.map { "content-state \(Self.shortened($0.oneLineJSON))" } ?? "",
            heldCommand.alert.map { "alert \(Self.shortened($0.oneLineJSON))" } ?? ""
        )
    }

    private func reasonForHolding(_ heldCommand: HeldCommand) -> String {
        guard let newestVersion, newestVersion.version == heldCommand.version else {
            return "until the newest command, which carries its alert, is known to be sent"
        }
        return newestVersion.phase == .held ? "until a token registers" : "being sent, kept until the response is known"
    }

    private static func shortened(_ text: String) -> String {
        text.count <= contentCharactersMax
            ? text : "\(text.prefix(contentCharactersMax))… (\(text.utf8.count) bytes; --json prints all)"
    }

    private var paceText: String {
        let nextPushText =
            pace.nextPushAtMilliseconds.map { "the next \(TimeText.relative($0, to: nowMilliseconds))" }
            ?? "the next may be sent now"
        let throttlingText =
            pace.spacingDoublingCount == 0
            ? "" : " (doublings after 429 responses: \(pace.spacingDoublingCount))"
        return "one push every \(TimeText.duration(pace.spacingMilliseconds))\(throttlingText); \(nextPushText)"
    }

    private var lifeText: String {
        guard let endMilliseconds = updatesUntilMilliseconds else { return "not begun" }
        let beginText = "began \(agoText(endMilliseconds - Self.updatePeriodMilliseconds))"
        if newestVersion?.isEnd == true, lifetimeEndsAtMilliseconds != nil {
            return "\(beginText); ended because its lifetime is over"
        }
        if newestVersion?.isEnd == true { return "\(beginText); ended, only a start can begin it again" }
        if let lifetimeEndsAtMilliseconds {
            return
                """
                \(beginText); its lifetime ends at \
                \(TimeText.timeOfDay(lifetimeEndsAtMilliseconds, nowMilliseconds: nowMilliseconds))
                """
        }
        return endMilliseconds > nowMilliseconds
            ? """
            \(beginText); updates until \(TimeText.timeOfDay(endMilliseconds, nowMilliseconds: nowMilliseconds)), \
            for \(TimeText.duration(endMilliseconds - nowMilliseconds))
            """
            : "\(beginText); its 8 hours are over, only an end can be sent"
    }

    /// How long Redis admits updates after an activity's beginning. So the activity began this long before
    /// ``updatesUntilMilliseconds``.
    private static let updatePeriodMilliseconds = StoreLimits.updatePeriodSeconds * 1_000
}

extension ActivityInspection.VersionPhase {
    var explanation: String {
        switch self {
        case .waiting: "waits in a worker for its pace or for a token"
        case .sending: "being sent, no response yet"
        case .startSending: "start being sent, no response yet"
        case .held: "held until a token registers"
        case .settled: "settled"
        case .notShown: "settled, but not shown"
        }
    }
}

extension ActivityReport.Budget {
    func text(of drawsName: String, nowMilliseconds: Int64) -> String {
        let reserveText =
            reservedDrawCount == 0
            ? ""
            : remainingDrawCount <= reservedDrawCount
                ? ", all for alerts and ends" : ", \(reservedDrawCount) of them for alerts and ends"
        let fullText = fullAtMilliseconds.map { "; full \(TimeText.relative($0, to: nowMilliseconds))" } ?? ""
        let leftText = remainingDrawCount == 0 ? "left" : "left\(reserveText)"
        return "\(remainingDrawCount) of \(drawsMax) \(drawsName) \(leftText)\(fullText)"
    }
}
