import ActivityStore
import LiveActivity

import enum CausewayRecords.JSONValue

extension AudienceReport {
    /// The complete report as JSON, for programs. Times are UNIX milliseconds.
    var json: JSONValue {
        .objectOmittingNil([
            "app": .string(app), "audience": .string(audience), "now": .integer(nowMilliseconds),
            "policy": .string(policyName), "members": census.json,
            "channels": .array(channels.map(Self.json)),
            "newest": newestVersion.map {
                .objectOmittingNil([
                    "timestamp": .integer($0.version.timestamp),
                    "sequence": .integer(Int64(clamping: $0.version.sequence)), "isSettled": .boolean($0.isSettled),
                ])
            } ?? .null,
            "sent": admittedVersion.map(Self.json) ?? .null,
            "budget": budget.json, "frequentBudget": frequentBudget.json,
            "underWay": .array(fanoutsUnderWay.map { $0.json(nowMilliseconds: nowMilliseconds) }),
            "finished": .array(
                finishedFanouts.map { fanout in
                    .objectOmittingNil([
                        "timestamp": .integer(fanout.version.timestamp),
                        "sequence": .integer(Int64(clamping: fanout.version.sequence)),
                        "admittedAt": .integer(fanout.admittedAtMilliseconds),
                        "ranges": .integer(Int64(fanout.rangeCount)), "members": fanout.counts.json,
                        "times": fanout.times.json,
                    ])
                }
            ),
        ])
    }

    private static func json(_ channel: AudienceInspection.Channel) -> JSONValue {
        .objectOmittingNil([
            "channel": .string("\(channel.channel.identifier)"),
            "environment": .string("\(channel.channel.environment.name)"),
            "storage": .string("\(channel.channel.storage.name)"),
            "createdAt": .integer(channel.createdAtMilliseconds),
        ])
    }

    private static func json(_ admitted: AudienceInspection.AdmittedVersion) -> JSONValue {
        .objectOmittingNil([
            "timestamp": .integer(admitted.grant.timestamp), "at": .integer(admitted.admittedAtMilliseconds),
            "isEnd": .boolean(admitted.isEnd), "isStart": .boolean(admitted.isStart),
            "priority": .integer(Int64(admitted.grant.priority)),
            "frequentPriority": .integer(Int64(admitted.grant.frequentUpdatesPriority)),
            "demoted": .boolean(admitted.grant.isDemoted), "ranges": .integer(Int64(admitted.grant.rangeCount)),
            "expiration": .integer(admitted.expirationSeconds),
        ])
    }
}

extension AudienceReport.FanoutUnderWay {
    fileprivate func json(nowMilliseconds: Int64) -> JSONValue {
        .objectOmittingNil([
            "timestamp": .integer(version.timestamp), "sequence": .integer(Int64(clamping: version.sequence)),
            "admittedAt": .integer(admittedAtMilliseconds), "ranges": .integer(Int64(rangeCount)),
            "rangesFinished": .integer(Int64(finishedRangeCount)), "share": .number(progressFraction),
            "perSecond": membersPerSecond(nowMilliseconds: nowMilliseconds).map(JSONValue.number) ?? .null,
            "members": counts.json,
            "times": times.json, "parked": .integer(Int64(parkedCount)),
            "progress": .array(
                unfinishedRanges.map { range in
                    .objectOmittingNil([
                        "range": .integer(Int64(range.range.index)), "share": .number(range.progressFraction),
                        "members": range.counts.json,
                    ])
                }
            ),
        ])
    }
}

extension AudienceCensus {
    fileprivate var json: JSONValue {
        .objectOmittingNil([
            "count": .integer(Int64(estimatedMemberCount)), "isExact": .boolean(isComplete),
            "read": .integer(Int64(readMemberCount)),
            "devices": .integer(Int64(deviceCount)), "sandbox": .integer(Int64(sandboxMemberCount)),
            "frequentUpdates": .integer(Int64(frequentUpdateMemberCount)),
            "channels": .integer(Int64(channelCapableDeviceCount)),
            "pages": .integer(Int64(pageCount)),
            "pagesRead": .integer(Int64(readPageCount)), "unreadable": .integer(Int64(unreadableValueCount)),
            "bytes": .integer(Int64(pageBytes)), "bySegment": .array(memberCountsBySegment.map { .integer(Int64($0)) }),
        ])
    }
}

extension MemberOutcomeCounts {
    fileprivate var json: JSONValue {
        .object(
            Dictionary(
                uniqueKeysWithValues: MemberOutcome.allCases.map { ("\($0.name)", JSONValue.integer(Int64(self[$0]))) }
            )
        )
    }
}

extension ResponseTimes {
    fileprivate var json: JSONValue {
        .objectOmittingNil([
            "first": firstResponseAtMilliseconds < 0 ? nil : .integer(firstResponseAtMilliseconds),
            "last": lastResponseAtMilliseconds < 0 ? nil : .integer(lastResponseAtMilliseconds),
        ])
    }
}
