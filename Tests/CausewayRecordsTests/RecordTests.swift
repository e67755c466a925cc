import CausewayRecords
import Foundation
import Testing

@Suite("Records of the kit")
struct RecordTests {
    private static let time = Date(timeIntervalSince1970: 1_790_000_000.123)

    @Test func `The worker accepts the library's registrations, and the library reads them as it wrote them`() throws {
        let kinds: [Registration.Kind] = [
            .activity(.init(id: "ride-7")),
            .activity(
                .init(id: "ride-7", frequentUpdates: true, shows: .init(timestamp: 1_790_000_000, sequence: .max))
            ),
            .activity(.init(id: "ride-7", frequentUpdates: false, shows: .init(timestamp: 1_790_000_000))),
            .device(.init(id: "phone/7", attributesType: "RideAttributes")),
            .device(.init(id: "phone/7", attributesType: "RideAttributes", channels: true)),
        ]
        for kind in kinds {
            for audiences in [nil, [], ["a", "b\"é"]] {
                let registration = Registration(
                    app: "com.example.ride",
                    environment: .sandbox,
                    registeredAt: Self.time,
                    token: PushToken([0, 1, 0x7F, 0xFF]),
                    kind,
                    audiences: audiences
                )
                let value = try registration.value()
                #expect(WorkerCodec.registrationFault(value) == nil, "\(String(decoding: value, as: UTF8.self))")
                let decodedRegistration = try Registration(value: value)
                #expect(decodedRegistration == registration)
                #expect(decodedRegistration.token.digits == "00017fff")
            }
        }
        #expect(Registration.defaultTopic == "causeway.registrations")
        let deviceKey = "phone/7/RideAttributes"
        #expect(kinds.map { registration($0).key } == ["ride-7", "ride-7", "ride-7", deviceKey, deviceKey])
        #expect(Registration.key(device: "phone/7", attributesType: "RideAttributes") == deviceKey)
    }

    private func registration(_ kind: Registration.Kind) -> Registration {
        Registration(app: "a", environment: .production, token: PushToken(digits: "00ff00ff"), kind)
    }

    @Test func `The time of a registration is in milliseconds`() throws {
        var registration = registration(.activity(.init(id: "a")))
        registration.registeredAt = Self.time
        let object = try JSONSerialization.jsonObject(with: registration.value()) as? [String: Any]
        #expect(object?["registeredAt"] as? Int == 1_790_000_000_123)
    }

    /// Fails the test unless the library for app servers reads each field of the record, so that writing it
    /// again gives the same record.
    private func expectSame(_ record: some KafkaRecord, _ value: Data) throws {
        let written = try #require(JSONSerialization.jsonObject(with: record.value()) as? [String: Any])
        let original = try #require(JSONSerialization.jsonObject(with: value) as? [String: Any])
        #expect(NSDictionary(dictionary: written) == NSDictionary(dictionary: original))
    }

    @Test func `Results that the worker writes are read, with every field`() throws {
        let values = [
            WorkerCodec.commandResult(), WorkerCodec.invalidResult(), try WorkerCodec.rangeResult(),
            WorkerCodec.audienceResult(),
            try WorkerCodec.broadcastResult(),
        ]
        let results = try values.map { try LiveActivityResult(value: $0) }
        for (result, value) in zip(results, values) { try expectSame(result, value) }
        #expect(results.map(\.outcome) == [.accepted, .invalid, .delivered, .delivered, .failed])
        #expect(
            results.map(\.command) == ["ride-3", "causeway.commands/0/7", "cup-final", "cup-final", "cup-final"]
        )
        guard case .command(let command) = results[0], case .range(let range) = results[2],
            case .audience(let audience) = results[3], case .broadcast(let broadcast) = results[4]
        else {
            Issue.record("\(results)")
            return
        }
        #expect(command.times.responded == Date(timeIntervalSince1970: 1_790_000_000.999))
        #expect(range.members[.delivered] == 247_484 && range.members[.failed] == 0)
        #expect(audience.broadcasts?[.unregistered] == 48)
        #expect(broadcast.environment == .production)
        #expect([command.dropped, audience.dropped, broadcast.dropped].allSatisfy { $0 == ["lineups", "odds"] })
        #expect(results[2...].map(\.key) == ["cup-final", "cup-final", "cup-final"])
    }

    @Test(arguments: [true, false])
    func `Invalidations that the worker writes are read`(ofDevice: Bool) throws {
        let value = WorkerCodec.invalidation(ofDevice: ofDevice)
        let record = try Invalidation(value: value)
        try expectSame(record, value)
        #expect(record.key == "00ff00ff")
        #expect((record.device != nil) == ofDevice && (record.activity == nil) == ofDevice)
        #expect(record.invalidAt == Self.time)
    }

    @Test(arguments: [true, false])
    func `Channels that the worker writes are read`(isEnded: Bool) throws {
        let (key, value) = WorkerCodec.channel(isEnded: isEnded)
        let record = try Channel(value: value)
        try expectSame(record, value)
        #expect(record.key == key)
        #expect((record.deleteAfter != nil) == isEnded && record.state == (isEnded ? "deleting" : "active"))
        #expect(record.createdAt == Self.time)
    }
}
