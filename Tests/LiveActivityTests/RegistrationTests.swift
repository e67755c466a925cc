import LiveActivity
import RecordTestbed
import Testing

@Suite("Registrations")
struct RegistrationTests {
    @Test func `Each field of an activity's registration is found`() throws {
        let record = Record(RecordText.registration.text)
        let registration = try record.registration()
        #expect(record.string(registration.app) == "com.example.scores")
        #expect(registration.environment == .production)
        #expect(registration.registeredAtMilliseconds == 1_790_000_000_123)
        guard case .activity(let activity) = registration.kind else {
            Issue.record("not an activity's")
            return
        }
        #expect(record.string(activity.activity) == "m1:7f")
        #expect(record.string(activity.token) == RecordText.token)
        #expect(activity.allowsFrequentUpdates)
        #expect(activity.shownVersion == Version(timestamp: 1_790_000_000, sequence: 7))
        #expect(record.string(activity.audiences) == #"["m1","world-cup"]"#)
        #expect(activity.audienceCount == 2)
    }

    /// The registration shows the version of second 1,790,000,000.
    @Test(arguments: [(1_789_999_700_000, true), (1_789_999_699_999, false)] as [(Int64, Bool)])
    func `A shown version more than five minutes ahead of its record does not count`(
        recordMilliseconds: Int64,
        counts: Bool
    ) throws {
        var registration = try Record(RecordText.registration.text).registration()
        registration.limitTimes(ofRecordWrittenAtMilliseconds: recordMilliseconds)
        guard case .activity(let activity) = registration.kind else {
            Issue.record("not an activity's")
            return
        }
        #expect((activity.shownVersion != nil) == counts)
        #expect(registration.registeredAtMilliseconds == recordMilliseconds + 300_000)
    }

    @Test func `Each field of a device's registration is found`() throws {
        let record = Record(RecordText.pushToStart.text)
        let registration = try record.registration()
        #expect(registration.environment == .sandbox)
        guard case .pushToStart(let device) = registration.kind else {
            Issue.record("not a device's")
            return
        }
        #expect(record.string(device.device) == "7f")
        #expect(record.string(device.attributesType) == "MatchAttributes")
        #expect(record.string(device.token) == RecordText.token)
        #expect(device.audienceCount == 0)
    }

    @Test func `Registrations name the audiences of a device`() throws {
        let record = Record(RecordText.pushToStart.with("audiences", #"["m1"]"#).text)
        guard case .pushToStart(let device) = try record.registration().kind else {
            Issue.record("not a device's")
            return
        }
        #expect(record.string(device.audiences) == #"["m1"]"#)
        #expect(device.audienceCount == 1)
    }

    @Test(arguments: [("true", true), ("false", false), (nil, false)])
    func `Registrations say whether a device takes channels`(_ value: String?, _ supportsChannels: Bool) throws {
        let text = value.map { RecordText.pushToStart.with("channels", $0) } ?? .pushToStart
        guard case .pushToStart(let device) = try Record(text.text).registration().kind else {
            Issue.record("not a device's")
            return
        }
        #expect(device.supportsChannels == supportsChannels)
    }

    @Test func `Registrations give the digest of each audience once, however it is escaped`() throws {
        let text = #"[ "m1" ,"n" , "\u006d1","m\u00e9"]"#
        let record = Record(RecordText.registration.with("audiences", text).text)
        guard case .activity(let activity) = try record.registration().kind else {
            Issue.record("not an activity's")
            return
        }
        #expect(activity.audienceCount == 4)
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 32, alignment: 8)
        defer { room.deallocate() }
        let count = Registration.writeDigests(of: activity.audiences, in: record.bytes, into: room)
        let expected = ["m1", "n", "m\u{e9}"]
            .map { name in Array(name.utf8).withUnsafeBytes { AudienceDigest(of: $0) } }
        #expect(Array(AudienceList(UnsafeRawBufferPointer(rebasing: room[..<count]))) == expected)
        #expect(Registration.writeDigests(of: .absent, in: record.bytes, into: room) == 0)
    }

    static let variants:
        [(record: RecordText, allowsFrequentUpdates: Bool, shownVersion: Version?, audienceCount: Int)] = [
            (.registration.without("frequentUpdates").without("shows").without("audiences"), false, nil, 0),
            (.registration.with("frequentUpdates", "false"), false, Version(timestamp: 1_790_000_000, sequence: 7), 2),
            (.registration.with("shows", "1790000001"), true, Version(timestamp: 1_790_000_001, sequence: 0), 2),
            (.registration.without("shows.sequence"), true, Version(timestamp: 1_790_000_000, sequence: 0), 2),
            (.registration.with("audiences", "[ ]"), true, Version(timestamp: 1_790_000_000, sequence: 7), 0),
            (
                .registration.with("audiences", #"[ "a" , "b","c" ]"#), true,
                Version(timestamp: 1_790_000_000, sequence: 7), 3
            ),
        ]

    @Test(arguments: variants)
    func `A registration may lack its optional fields`(
        _ record: RecordText,
        _ allowsFrequentUpdates: Bool,
        _ shownVersion: Version?,
        _ audienceCount: Int
    ) throws {
        guard case .activity(let activity) = try Record(record.text).registration().kind else {
            Issue.record("not an activity's")
            return
        }
        #expect(activity.allowsFrequentUpdates == allowsFrequentUpdates)
        #expect(activity.shownVersion == shownVersion)
        #expect(activity.audienceCount == audienceCount)
    }

    static let types: [(path: String, template: RecordText, allowed: Set<String>)] = [
        ("app", .registration, ["string"]), ("environment", .registration, ["string"]),
        ("registeredAt", .registration, ["number"]), ("activity", .registration, ["string"]),
        ("token", .registration, ["string"]), ("audiences", .registration, ["array"]),
        ("frequentUpdates", .registration, ["boolean"]), ("shows", .registration, ["number", "object"]),
        ("shows.timestamp", .registration, ["number"]), ("shows.sequence", .registration, ["number"]),
        ("channels", .pushToStart, ["boolean"]),
        ("device", .pushToStart, ["string"]), ("attributesType", .pushToStart, ["string"]),
    ]

    static let wrongTypes: [FaultCase] = types.flatMap { field in
        CommandFaultTests.values.filter { !field.allowed.contains($0.type) }
            .map {
                FaultCase(field.template.with(field.path, $0.value), .wrongType, field.path)
            }
    }

    static let missingFields: [FaultCase] =
        ["app", "environment", "registeredAt", "activity", "token"]
        .map {
            FaultCase(.registration.without($0), .missingField, $0)
        }
        + ["app", "environment", "registeredAt", "attributesType", "token"]
        .map {
            FaultCase(.pushToStart.without($0), .missingField, $0)
        }

    static let otherFaults: [FaultCase] = [
        FaultCase(.registration.without("shows.timestamp"), .missingField, "shows.timestamp"),
        FaultCase(.registration.with("shows.time", "1"), .unknownKey, "shows.time"),
        FaultCase(.registration.with("shows", "1790000000000"), .outOfRange, "shows"),
        FaultCase(.registration.with("shows.timestamp", "1"), .outOfRange, "shows.timestamp"),
        FaultCase(.registration.with("registeredAt", "1790000000"), .outOfRange, "registeredAt"),
        FaultCase(.registration.with("registeredAt", "10000000000000"), .outOfRange, "registeredAt"),
        FaultCase(.registration.with("frequentUpdates", "tru"), .notJSON, "frequentUpdates"),
        FaultCase(.registration.with("audiences", #"["a",1]"#), .wrongType, "audiences"),
        FaultCase(.registration.with("audiences", #"["a",""]"#), .emptyText, "audiences"),
        FaultCase(.registration.with("audiences", #"["a","\u0000"]"#), .invalidCharacter, "audiences"),
        FaultCase(.registration.with("audiences", #"["a",]"#), .notJSON, "audiences"),
        FaultCase(
            .registration.with("audiences", "[\(Array(repeating: #""a""#, count: 9).joined(separator: ","))]"),
            .tooMany,
            "audiences"
        ),
        FaultCase(.registration.with("attributesType", #""A""#), .notAllowed, "attributesType"),
        FaultCase(.registration.with("channels", "true"), .notAllowed, "channels"),
        FaultCase(.pushToStart.with("activity", #""a""#), .notAllowed, "activity"),
        FaultCase(.pushToStart.with("audiences", #"["a",null]"#), .wrongType, "audiences"),
        FaultCase(.pushToStart.with("shows", "1790000000"), .notAllowed, "shows"),
        FaultCase(.pushToStart.with("frequentUpdates", "false"), .notAllowed, "frequentUpdates"),
        FaultCase(.registration.without("activity").without("token"), .missingField, "token"),
        FaultCase(.registration.with("token", #""abc""#), .invalidHexadecimal, "token"),
        FaultCase(.registration.with("aps", "{}"), .unknownKey, "aps"),
        FaultCase(#"{"shows":{"sequence":1,"sequence":1}}"#, .duplicateKey, "shows.sequence"),
        FaultCase(#"{"token":"00000000","tok\u0065n":"00000000"}"#, .duplicateKey, "token"),
    ]

    @Test(arguments: wrongTypes + missingFields + otherFaults)
    func `Registrations are refused for wrong types, and for missing or misplaced fields`(_ fault: FaultCase) {
        fault.expect { (record) throws(Fault) in _ = try record.registration() }
    }
}
