import ActivityStore
import LiveActivity
import Numbers

import enum CausewayRecords.JSONValue

extension ActivityReport {
    /// Returns the complete report as JSON, for programs. Times are UNIX milliseconds.
    func json(results: JSONValue?) -> JSONValue {
        .objectOmittingNil([
            "app": .string(app), "activity": .string(activity), "now": .integer(nowMilliseconds),
            "policy": .string(policyName),
            "token": token.map {
                .objectOmittingNil([
                    "sha256": .string($0.fingerprint), "environment": .string("\($0.environment.name)"),
                    "registeredAt": registeredAtMilliseconds.map(JSONValue.integer),
                ])
            } ?? .null,
            "frequentUpdates": .boolean(allowsFrequentUpdates),
            "audiences": .integer(Int64(audienceCount)),
            "newest": newestVersion.map {
                .objectOmittingNil([
                    "timestamp": .integer($0.version.timestamp),
                    "sequence": .integer(Int64(clamping: $0.version.sequence)),
                    "isEnd": .boolean($0.isEnd), "state": .string($0.phase.rawValue),
                ])
            } ?? .null,
            "sent": lastSentVersion.map {
                .objectOmittingNil(["timestamp": .integer($0.timestamp), "at": .integer($0.atMilliseconds)])
            } ?? .null,
            "shownDigest": shownDigest.map { .string(Hexadecimal.text($0)) } ?? .null,
            "held": heldCommand?.commandJSON ?? .null,
            "pace": .objectOmittingNil([
                "spacingMilliseconds": .integer(pace.spacingMilliseconds),
                "stretchLevel": .integer(Int64(pace.spacingDoublingCount)),
                "nextPushAt": pace.nextPushAtMilliseconds.map(JSONValue.integer) ?? .null,
            ]),
            "budget": budget.json,
            "updatesUntil": updatesUntilMilliseconds.map(JSONValue.integer) ?? .null,
            "lifetimeEnds": lifetimeEndsAtMilliseconds.map(JSONValue.integer) ?? .null,
            "results": results,
        ])
    }
}

extension ActivityReport.Budget {
    var json: JSONValue {
        .objectOmittingNil([
            "left": .integer(Int64(remainingDrawCount)), "of": .integer(Int64(drawsMax)),
            "reserved": .integer(Int64(reservedDrawCount)),
            "fullAt": fullAtMilliseconds.map(JSONValue.integer) ?? .null,
        ])
    }
}
