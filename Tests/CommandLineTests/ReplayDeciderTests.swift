import ActivityStore
import LiveActivity
import Testing

@testable import causeway

@Suite("The decisions of a replay")
struct ReplayDeciderTests {
    private static let nowSeconds: Int64 = 1_790_000_000
    private static let app = Array("com.example.ride".utf8)
    private static var subject: StoreSubject<[UInt8]> {
        StoreSubject(app: app, kind: .activity, identifier: Array("a".utf8))
    }

    private var model = StoreModel(nowMilliseconds: (nowSeconds - 60) * 1_000)
    private let policy = Policy(name: "default")

    /// Makes a command that is this old.
    private func record(
        _ ageSeconds: Int64,
        _ event: String = "update",
        state: Int = 1,
        hasAlert: Bool = false,
        otherMembers: String = ""
    ) -> [UInt8] {
        let alertMember = hasAlert ? #","alert":{"title":"a","body":"b"}"# : ""
        let start = event == "start" ? #","attributes-type":"Ride","attributes":{}"# : ""
        let device = event == "start" ? #""device":"phone","# : ""
        let timestamp = Self.nowSeconds - ageSeconds
        let aps = #"""
            {"event":"\#(event)","timestamp":\#(timestamp)\#(start),"content-state":{"n":\#(state)}\#(alertMember)}
            """#
        return Array(#"{"app":"com.example.ride","activity":"a",\#(device)\#(otherMembers)"aps":\#(aps)}"#.utf8)
    }

    private func verdict(
        _ record: [UInt8],
        followsStart: Bool = false,
        includesStarts: Bool = true,
        hasToken: Bool = true
    ) throws -> ReplayVerdict {
        let decider = ReplayDecider(
            nowMilliseconds: Self.nowSeconds * 1_000,
            redisNowMilliseconds: Self.nowSeconds * 1_000,
            includesStarts: includesStarts,
            restartsActivities: false
        )
        let unknown = ActivityState(try ActivityInspection(value: []))
        let activity = model.activities[StoreModel.key(of: Self.subject)] ?? unknown
        return try record.withUnsafeBytes { bytes in
            let command = try Command.decode(bytes)
            guard command.event == .start else {
                return decider.verdict(
                    on: command,
                    of: bytes,
                    recordTimestampMilliseconds: Self.nowSeconds * 1_000,
                    policy: policy,
                    activity: activity,
                    followsStart: followsStart
                )
            }
            let reason = decider.startReason(for: command, policy: policy, activity: activity, hasToken: hasToken)
            return ReplayVerdict(reason: reason)
        }
    }

    private func reason(_ record: [UInt8]) throws -> ReplayReason { try verdict(record).reason }

    @discardableResult
    private mutating func perform(_ operation: StoreCall<[UInt8]>.Operation) -> StoreVerdict {
        model.perform(StoreCall(tag: 0, subject: Self.subject, operation: operation)).verdict
    }

    private mutating func register() {
        let token = TokenRegistration(token: Array("0af7".utf8), environment: .sandbox, registeredAtMilliseconds: 5)
        perform(.register(token, allowsFrequentUpdates: nil, shownVersion: nil, source: .record, audiences: nil))
    }

    private mutating func admit(_ record: [UInt8]) throws -> StateAdmission<[UInt8]> {
        let admission = try record.withUnsafeBytes { bytes in
            let command = try Command.decode(bytes)
            return ReplayDecider.admission(
                of: command,
                bytes,
                recordTimestampMilliseconds: 0,
                pace: policy.pace,
                dropsAlert: false,
                restartsActivities: false,
                // Uses the command's own time as the time of the replay, so no command is too old.
                nowSeconds: command.version.timestamp
            )
        }
        perform(.admit(admission))
        return admission
    }

    private mutating func settle(_ record: [UInt8], _ settlement: Settlement) throws {
        let admission = try admit(record)
        perform(.settle(version: admission.version, settlement, digest: admission.digest, retirement: nil))
    }

    @Test mutating func `A replay decides by what Redis knows about the activity`() throws {
        #expect(try reason(record(10)) == .tokenUnknown)
        register()
        #expect(try reason(record(10)) == .send)
        try settle(record(100), .accepted)
        #expect(try reason(record(10, state: 2)) == .send)
        #expect(try reason(record(10)) == .unchanged)
        #expect(try reason(record(100)) == .duplicate)
        #expect(try reason(record(200)) == .superseded)
        try settle(record(50, "end"), .accepted)
        #expect(try reason(record(10, state: 2)) == .ended)
        #expect(try reason(record(50, "end")) == .duplicate)
    }

    @Test mutating func `An expired or failed command is sent again; one that a worker has in progress is not`() throws
    {
        register()
        _ = try admit(record(100))
        #expect(try reason(record(100)) == .underWay)
        try settle(record(100), .notShown)
        #expect(try reason(record(100)) == .sendAgain)
        #expect(try reason(record(200)) == .superseded)
        model.nowMilliseconds += 5_000
        try settle(record(50, "end"), .notShown)
        #expect(try reason(record(50, "end")) == .sendAgain)
        #expect(try reason(record(50)) == .ended)
    }

    @Test mutating func `A held command waits for its token, or is sent when there is one`() throws {
        let admission = try admit(record(100))
        perform(.hold(version: admission.version, command: record(100), hasAlert: false))
        #expect(try reason(record(100)) == .held)
        #expect(try reason(record(90)) == .tokenUnknown)
        register()
        #expect(try reason(record(100)) == .send)
    }

    @Test mutating func `A replay judges the age of commands by the core's rules`() throws {
        #expect(try reason(record(8 * 3_600)) == .tokenUnknown)
        #expect(try reason(record(8 * 3_600 + 1)) == .activityUnknown)
        #expect(try reason(record(12 * 3_600, "end")) == .tokenUnknown)
        #expect(try reason(record(12 * 3_600 + 1, "end")) == .activityUnknown)
        register()
        try settle(record(10 * 3_600), .accepted)
        #expect(try reason(record(9 * 3_600, state: 2)) == .expired, "Redis knows the activity")
        let farExpiration = #""expiration":1790009999,"#
        #expect(try reason(record(9 * 3_600, state: 2, otherMembers: farExpiration)) == .send)
        #expect(try reason(record(10, otherMembers: #""expiration":1789999999,"#)) == .expired)
        #expect(try verdict(record(300, hasAlert: true)) == ReplayVerdict(reason: .send))
        #expect(try verdict(record(301, state: 2, hasAlert: true)) == ReplayVerdict(reason: .send, dropsAlert: true))
        #expect(
            try reason(record(301, hasAlert: true)) == .unchanged,
            "without its alert, the command brings what is already shown"
        )
        // An activity that began more than eight hours ago.
        model.nowMilliseconds -= 9 * 3_600_000
        model = StoreModel(nowMilliseconds: model.nowMilliseconds)
        register()
        #expect(try reason(record(10)) == .activityOver)
        #expect(try reason(record(10, "end")) == .send)
    }

    @Test mutating func `Starts are sent only on request, if they are young and unknown`() throws {
        #expect(try verdict(record(10, "start", hasAlert: true), includesStarts: false).reason == .startLeftOut)
        #expect(try verdict(record(600, "start", hasAlert: true)).reason == .send)
        #expect(try verdict(record(601, "start", hasAlert: true)).reason == .startTooOld)
        #expect(try verdict(record(10, "start", hasAlert: true), hasToken: false).reason == .tokenUnknown)
        #expect(try verdict(record(5), followsStart: true).reason == .send, "the activity's token comes with its start")
        perform(.admitStart(version: Version(timestamp: Self.nowSeconds - 10, sequence: 0), claim: 7))
        #expect(try verdict(record(10, "start", hasAlert: true)).reason == .duplicate)
        #expect(try verdict(record(20, "start", hasAlert: true)).reason == .superseded)
        perform(
            .settle(
                version: Version(timestamp: Self.nowSeconds - 10, sequence: 0),
                .notShown,
                digest: 0,
                retirement: nil
            )
        )
        #expect(try verdict(record(10, "start", hasAlert: true)).reason == .duplicate, "no start is sent twice")
    }
}
