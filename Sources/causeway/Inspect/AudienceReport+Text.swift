import ActivityStore
import LiveActivity

extension AudienceReport {
    /// The maximum number of ranges in the list, which has the ranges with the most work left.
    private static let rangesMax = 5

    func lines() -> [String] {
        var lines = LabelledLines()
        lines.add("audience", "\(audience) of \(app)")
        lines.add("members", membersText, pagesText)
        for channel in channels { lines.add("channel", channelText(channel)) }
        lines.add("newest", newestVersionText)
        lines.add("sent", sentText)
        lines.add(
            "budget",
            "\(budget.text(of: "pushes of priority 10", nowMilliseconds: nowMilliseconds)); policy \(policyName)",
            "with frequent updates \(frequentBudget.text(of: "pushes", nowMilliseconds: nowMilliseconds))"
        )
        if roundsUnderWay.isEmpty { lines.add("rounds", "none under way") }
        for round in roundsUnderWay { lines.add("round", progressText(round), speedText(round), rangesText(round)) }
        addFinishedRounds(to: &lines)
        return lines.lines
    }

    private var membersText: String {
        let count = census.isComplete ? "\(census.membersRead)" : "about \(census.estimatedMemberCount)"
        guard census.membersRead > 0 else { return count }
        let devices =
            census.deviceCount == 0 ? "" : ", \(Self.percent(census.deviceCount, of: census.membersRead)) devices"
        let sandbox = Self.percent(census.sandboxMemberCount, of: census.membersRead)
        let frequent = Self.percent(census.frequentUpdateMemberCount, of: census.membersRead)
        let channels =
            census.channelCapableDeviceCount == 0
            ? "" : ", \(Self.percent(census.channelCapableDeviceCount, of: census.membersRead)) take channels"
        return "\(count)\(devices), \(sandbox) sandbox, \(frequent) allow frequent updates\(channels)"
    }

    private var pagesText: String {
        guard census.pageCount > 0 else { return "" }
        let read = census.isComplete ? "" : ", of which \(census.pagesRead) were read (all with --all-members)"
        let unreadable = census.unreadableCount == 0 ? "" : ", \(census.unreadableCount) cannot be read whole"
        let bySegment = census.memberCountsBySegment
        return
            "on \(census.pageCount) pages\(read)\(unreadable); \(bySegment.min() ?? 0) to \(bySegment.max() ?? 0) a segment"
    }

    private func channelText(_ channel: AudienceInspection.Channel) -> String {
        let (environment, storage) = (channel.channel.environment.name, channel.channel.storage.name)
        let created = agoText(channel.createdAtMilliseconds)
        return "\(channel.channel.identifier), \(environment), storage \(storage); created \(created)"
    }

    private var newestVersionText: String {
        guard let newestVersion else { return "no command has been admitted" }
        let state = newestVersion.isSettled ? "settled" : "admitted, not known to be in the fan-out topic"
        return "\(text(newestVersion.version)): \(state)"
    }

    private var sentText: String {
        guard let lastAdmission else { return "nothing" }
        let grant = lastAdmission.grant
        let kind = lastAdmission.isEnd ? "an end" : lastAdmission.isStart ? "a start" : "an update"
        let priorities = "priority \(grant.priority), \(grant.frequentUpdatesPriority) with frequent updates"
        let expires = TimeText.relative(
            UnixSeconds.milliseconds(ofSeconds: lastAdmission.expirationSeconds),
            to: nowMilliseconds
        )
        return
            "\(kind) \(agoText(lastAdmission.admittedAtMilliseconds)) as \(grant.timestamp), \(priorities)\(grant.isDemoted ? ", demoted" : "")"
            + "; expires \(expires)"
    }

    private func progressText(_ round: RoundUnderWay) -> String {
        let parked = round.parkedCount == 0 ? "" : ", \(round.parkedCount) members are tried again"
        let broadcasts = round.finishedRangeCount == round.rangeCount ? ", broadcasts not finished" : ""
        return
            "\(text(round.version)): \(Self.percent(round.progressFraction)) of the way, \(round.finishedRangeCount) of "
            + "\(round.rangeCount) ranges finished\(parked)\(broadcasts)"
    }

    private func speedText(_ round: RoundUnderWay) -> String {
        let speed =
            round.membersPerSecond(nowMilliseconds: nowMilliseconds).map { ", \(Int($0.rounded())) a second" } ?? ""
        return "admitted \(agoText(round.admittedAtMilliseconds)); \(round.counts.total) members\(speed)"
    }

    private func rangesText(_ round: RoundUnderWay) -> String {
        let slowestRanges = round.unfinishedRanges.sorted { $0.progressFraction < $1.progressFraction }
            .prefix(Self.rangesMax)
        guard !slowestRanges.isEmpty else { return "" }
        let names = slowestRanges.map { "\($0.range.index) at \(Self.percent($0.progressFraction))" }
            .joined(separator: ", ")
        return "\(round.unfinishedRanges.count) under way; furthest behind: \(names)"
    }

    private func addFinishedRounds(to lines: inout LabelledLines) {
        guard !finishedRounds.isEmpty else { return }
        lines.add("")
        lines.addTable(
            header: ["last rounds", "timestamp", "took"] + MemberOutcome.allCases.map { "\($0.name)" },
            rows: finishedRounds.map { round in
                let spanMilliseconds = round.times.lastResponseAtMilliseconds - round.times.firstResponseAtMilliseconds
                let took = round.times.firstResponseAtMilliseconds < 0 ? "-" : TimeText.duration(spanMilliseconds)
                return [
                    TimeText.relative(round.admittedAtMilliseconds, to: nowMilliseconds), "\(round.version.timestamp)",
                    took,
                ] + MemberOutcome.allCases.map { "\(round.counts[$0])" }
            },
            rightAligned: Set(3..<(3 + MemberOutcome.allCases.count))
        )
    }

    private func agoText(_ milliseconds: Int64) -> String {
        "\(TimeText.relative(milliseconds, to: nowMilliseconds)) (\(TimeText.timeOfDay(milliseconds, nowMilliseconds: nowMilliseconds)))"
    }

    private func text(_ version: Version) -> String {
        let age = TimeText.relative(UnixSeconds.milliseconds(ofSeconds: version.timestamp), to: nowMilliseconds)
        return "\(version.timestamp), \(age)\(version.sequence == 0 ? "" : ", sequence \(version.sequence)")"
    }

    private static func percent(_ part: Int, of whole: Int) -> String { percent(Double(part) / Double(max(1, whole))) }

    private static func percent(_ share: Double) -> String { "\(Int((share * 100).rounded())) %" }
}
