import ActivityStore
import LiveActivity

extension AudienceReport {
    /// The maximum number of listed ranges. Those with the most work left are listed.
    private static let listedRangesMax = 5

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
        if fanoutsUnderWay.isEmpty { lines.add("rounds", "none in progress") }
        for fanout in fanoutsUnderWay {
            lines.add("round", progressText(fanout), speedText(fanout), rangesText(fanout))
        }
        addFinishedFanouts(to: &lines)
        return lines.lines
    }

    private var membersText: String {
        let count = census.isComplete ? "\(census.readMemberCount)" : "about \(census.estimatedMemberCount)"
        guard census.readMemberCount > 0 else { return count }
        let devicesText =
            census.deviceCount == 0 ? "" : ", \(Self.percent(census.deviceCount, of: census.readMemberCount)) devices"
        let sandboxPercent = Self.percent(census.sandboxMemberCount, of: census.readMemberCount)
        let frequentUpdatesPercent = Self.percent(census.frequentUpdateMemberCount, of: census.readMemberCount)
        let channelsText =
            census.channelCapableDeviceCount == 0
            ? "" : ", \(Self.percent(census.channelCapableDeviceCount, of: census.readMemberCount)) support channels"
        return
            """
            \(count)\(devicesText), \(sandboxPercent) sandbox, \(frequentUpdatesPercent) allow frequent \
            updates\(channelsText)
            """
    }

    private var pagesText: String {
        guard census.pageCount > 0 else { return "" }
        let readText = census.isComplete ? "" : ", of which \(census.readPageCount) were read (--all-members reads all)"
        let unreadableValuesText =
            census.unreadableValueCount == 0 ? "" : ", \(census.unreadableValueCount) cannot be read completely"
        let memberCounts = census.memberCountsBySegment
        return
            """
            on \(census.pageCount) \(census.pageCount == 1 ? "page" : "pages")\(readText)\(unreadableValuesText); \
            \(memberCounts.min() ?? 0) to \(memberCounts.max() ?? 0) in each segment
            """
    }

    private func channelText(_ channel: AudienceInspection.Channel) -> String {
        let (environment, storage) = (channel.channel.environment.name, channel.channel.storage.name)
        let created = agoText(channel.createdAtMilliseconds)
        return "\(channel.channel.identifier), \(environment), storage \(storage); created \(created)"
    }

    private var newestVersionText: String {
        guard let newestVersion else { return "no command has been admitted" }
        let settlementText = newestVersion.isSettled ? "settled" : "admitted, perhaps not fully in the fan-out topic"
        return "\(text(newestVersion.version)): \(settlementText)"
    }

    private var sentText: String {
        guard let admittedVersion else { return "nothing" }
        let grant = admittedVersion.grant
        let kind = admittedVersion.isEnd ? "an end" : admittedVersion.isStart ? "a start" : "an update"
        let priorities = "priority \(grant.priority), \(grant.frequentUpdatesPriority) with frequent updates"
        let expirationText = TimeText.relative(
            UnixSeconds.milliseconds(ofSeconds: admittedVersion.expirationSeconds),
            to: nowMilliseconds
        )
        return
            """
            \(kind) \(agoText(admittedVersion.admittedAtMilliseconds)) as \(grant.timestamp), \
            \(priorities)\(grant.isDemoted ? ", demoted" : ""); expires \(expirationText)
            """
    }

    private func progressText(_ fanout: FanoutUnderWay) -> String {
        let parkedText =
            fanout.parkedCount == 0
            ? "" : ", \(fanout.parkedCount) \(fanout.parkedCount == 1 ? "member is" : "members are") retried"
        let broadcastsText = fanout.finishedRangeCount == fanout.rangeCount ? ", broadcasts not finished" : ""
        return
            "\(text(fanout.version)): \(Self.percent(fanout.progressFraction)) done, \(fanout.finishedRangeCount) of "
            + "\(fanout.rangeCount) \(fanout.rangeCount == 1 ? "range" : "ranges") finished"
            + "\(parkedText)\(broadcastsText)"
    }

    private func speedText(_ fanout: FanoutUnderWay) -> String {
        let rateText =
            fanout.membersPerSecond(nowMilliseconds: nowMilliseconds).map { ", \(Int($0.rounded())) a second" } ?? ""
        let countText = fanout.counts.total == 1 ? "1 member" : "\(fanout.counts.total) members"
        return "admitted \(agoText(fanout.admittedAtMilliseconds)); \(countText)\(rateText)"
    }

    private func rangesText(_ fanout: FanoutUnderWay) -> String {
        let slowestRanges = fanout.unfinishedRanges.sorted { $0.progressFraction < $1.progressFraction }
            .prefix(Self.listedRangesMax)
        guard !slowestRanges.isEmpty else { return "" }
        let names = slowestRanges.map { "\($0.range.index) at \(Self.percent($0.progressFraction))" }
            .joined(separator: ", ")
        return "\(fanout.unfinishedRanges.count) in progress; slowest: \(names)"
    }

    private func addFinishedFanouts(to lines: inout LabelledLines) {
        guard !finishedFanouts.isEmpty else { return }
        lines.add("")
        lines.addTable(
            header: ["last rounds", "timestamp", "took"] + MemberOutcome.allCases.map { "\($0.name)" },
            rows: finishedFanouts.map { fanout in
                let firstAtMilliseconds = fanout.times.firstResponseAtMilliseconds
                let spanMilliseconds = fanout.times.lastResponseAtMilliseconds - firstAtMilliseconds
                let durationText = firstAtMilliseconds < 0 ? "-" : TimeText.duration(spanMilliseconds)
                return [
                    TimeText.relative(fanout.admittedAtMilliseconds, to: nowMilliseconds),
                    "\(fanout.version.timestamp)", durationText,
                ] + MemberOutcome.allCases.map { "\(fanout.counts[$0])" }
            },
            rightAligned: Set(3..<(3 + MemberOutcome.allCases.count))
        )
    }

    private func agoText(_ milliseconds: Int64) -> String {
        """
        \(TimeText.relative(milliseconds, to: nowMilliseconds)) \
        (\(TimeText.timeOfDay(milliseconds, nowMilliseconds: nowMilliseconds)))
        """
    }

    private func text(_ version: Version) -> String {
        let age = TimeText.relative(UnixSeconds.milliseconds(ofSeconds: version.timestamp), to: nowMilliseconds)
        return "\(version.timestamp), \(age)\(version.sequence == 0 ? "" : ", sequence \(version.sequence)")"
    }

    private static func percent(_ part: Int, of whole: Int) -> String { percent(Double(part) / Double(max(1, whole))) }

    private static func percent(_ share: Double) -> String { "\(Int((share * 100).rounded())) %" }
}
