import Reactor
import ScriptModel
import Testing

@testable import Redis

/// The scripts on a real server against their model: the same replies and the same contents, over random histories.
///
/// Spacings are nothing or an hour, so that the two clocks need not agree to the millisecond.
@Suite(.serialized) struct DifferentialTests {
    @Test(arguments: [1, 2, 3] as [UInt64])
    func `Replies and hashes are the model's`(seed: UInt64) throws {
        let server = try RedisServer()
        let lane = try Lane(server.unixURL)
        #expect(lane.turnUntilReady())
        try #require(lane.connection.isReady)
        var history = History(seed: seed)
        var model = ScriptModel(nowMilliseconds: lane.loop.wallMilliseconds)
        var expected: [UInt64: Lane.Event] = [:]
        var differences: [String] = []
        var verdicts: [Verdict: Int] = [:]
        lane.onEvent = { event in
            switch event {
            case .admitted(let tag, let reply):
                verdicts[reply.verdict, default: 0] += 1
                var exact = reply
                if reply.verdict == .wait {
                    if !(3_000_000...3_600_000).contains(reply.waitMilliseconds) { differences.append("\(reply)") }
                    exact.waitMilliseconds = 0
                }
                let model = expected.removeValue(forKey: tag)
                if model != .admitted(tag, exact) {
                    differences.append("\(event), the model: \(String(describing: model))")
                }
            case .settled(let tag, _):
                let model = expected.removeValue(forKey: tag)
                if model != event { differences.append("\(event), the model: \(String(describing: model))") }
            default:
                differences.append("\(event)")
            }
            lane.events.removeAll(keepingCapacity: true)
        }
        for round in 0..<8 {
            for index in 0..<5_000 {
                let tag = UInt64(round * 5_000 + index)
                let operation = history.next()
                switch operation.call {
                case .admit(let call):
                    var reply = model.admit(key: operation.key.text, call)
                    if reply.verdict == .wait { reply.waitMilliseconds = 0 }
                    expected[tag] = .admitted(tag, reply)
                    #expect(lane.issues { $0.issue(call, key: operation.key, tag: tag) })
                case .settle(let call):
                    expected[tag] = .settled(tag, model.settle(key: operation.key.text, call))
                    #expect(lane.issues { $0.issue(call, key: operation.key, tag: tag) })
                }
                if index % 128 == 0 { lane.loop.turn(waitMilliseconds: 0) }
                if lane.connection.outstandingCount > 4_000 {
                    #expect(lane.turn { lane.connection.outstandingCount < 2_000 })
                }
            }
            #expect(lane.turn { lane.connection.outstandingCount == 0 })
            try #require(differences.isEmpty && expected.isEmpty, "round \(round): \(differences.prefix(3))")
            try compareHashes(server, model, history.keys)
        }
        // Every verdict was seen, or the histories do not show what they are to show.
        #expect(Set(verdicts.keys) == Set(Verdict.allCases))
    }

    private func compareHashes(_ server: RedisServer, _ model: ScriptModel, _ keys: [TestKey]) throws {
        for key in keys {
            var found = server.hash(key.text)
            // The server's clock is not the model's: that there was a send verdict is all that is compared.
            if let record = found["v"], record.count >= 54 {
                let isSent = !record[41..<54].elementsEqual(repeatElement(UInt8(ascii: "0"), count: 13))
                found["v"] = Array(record[..<41] + (isSent ? "1" : "0").utf8 + record[54...])
            }
            let expected: [String: [UInt8]]
            switch key.kind {
            case .activity: expected = model.activities[key.text]?.fields ?? [:]
            case .device: expected = model.devices[key.text]?.fields ?? [:]
            }
            try #require(found == expected, "\(key)")
        }
    }
}

/// Random operations on a few addresses, with few versions, tokens and times, so that they meet.
struct History {
    enum Call {
        case admit(AdmitCall)
        case settle(SettleCall)
    }

    private var random: SplitMix
    private var lastVersions: [TestKey: ScriptVersion] = [:]
    let keys: [TestKey]
    private static let tokens: [[UInt8]] = [
        Array(String(repeating: "0af7", count: 40).utf8), Array(String(repeating: "9c", count: 32).utf8),
        Array("ABCDEF".utf8), Array("abc".utf8), Array(repeating: 0x41, count: 200), Array("00".utf8),
    ]
    private static let types = ["GameAttributes", "RaceAttributes"]

    init(seed: UInt64) {
        random = SplitMix(state: seed)
        keys = (0..<24).map { .activity("activity-\($0)") } + (0..<6).map { .device("device-\($0)") }
    }

    mutating func next() -> (key: TestKey, call: Call) {
        let key = pick(keys)
        let type = key.kind == .activity ? nil : pick(Self.types)
        if key.kind == .device, below(3) == 0 {
            return (
                key,
                .admit(
                    below(8) == 0
                        ? .unregisterAll(atMilliseconds: time())
                        : .address(attributesType: pick(Self.types), registration: below(4) == 0 ? token() : nil)
                )
            )
        }
        switch below(20) {
        case 0..<8 where type == nil:
            // Commands come mostly in order, and now and then again or late.
            if below(4) == 0 {
                let start = AdmitCall.start(version: version(key), claim: UInt64(below(2)) &* 0x9E37_79B9_7F4A_7C15)
                return (key, .admit(start))
            }
            return (
                key,
                .admit(
                    .command(
                        event: below(10) == 0 ? .end : .update,
                        version: version(key),
                        digest: UInt64(below(4)) &* 0x9E37_79B9_7F4A_7C15,
                        spacingMilliseconds: below(6) == 0 ? 3_600_000 : 0,
                        registration: below(6) == 0 ? token() : nil
                    )
                )
            )
        case 8..<11:
            return (
                key,
                .admit(.hold(attributesType: type, version: version(key), command: Array("held \(below(1000))".utf8)))
            )
        case 11..<14:
            return (
                key,
                .admit(
                    .register(attributesType: type, registration: token(), shows: below(2) == 0 ? version(key) : nil)
                )
            )
        case 14:
            return (key, .admit(.unregister(attributesType: type, atMilliseconds: time())))
        default:
            var call = SettleCall(
                attributesType: type,
                version: below(8) == 0 ? nil : version(key),
                outcome: pick([.accepted, .notShown, .unknown]),
                digest: UInt64(below(4)) &* 0x9E37_79B9_7F4A_7C15
            )
            if below(4) == 0 {
                let token = token()
                call.retirement = .init(
                    token: token.token,
                    environment: token.environment,
                    invalidAtMilliseconds: below(3) == 0 ? nil : time()
                )
            }
            return (key, .settle(call))
        }
    }

    /// Often the key's last one again, else one a little older or newer.
    private mutating func version(_ key: TestKey) -> ScriptVersion {
        let last = lastVersions[key] ?? ScriptVersion.at(5, 0)
        if below(2) == 0 { return last }
        let timestamp = max(0, Int64(last.timestampSeconds) + Int64(below(6)) - 2)
        let version = ScriptVersion.at(UInt64(timestamp), UInt64(below(2)))
        if below(2) == 0 { lastVersions[key] = version }
        return version
    }

    private mutating func token() -> ModelToken {
        ModelToken(
            token: pick(Self.tokens),
            environment: below(2) == 0 ? .production : .sandbox,
            registeredAtMilliseconds: time()
        )
    }

    private mutating func time() -> Int64 { below(50) == 0 ? 0 : Int64(below(12)) + (below(30) == 0 ? 12 : 0) }

    private mutating func below(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }
    private mutating func pick<Element>(_ choices: [Element]) -> Element { choices[below(choices.count)] }
}

struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

// MARK: - The model's state as the server stores it

extension ActivityState {
    /// The fields that are not empty; of the time of the last send verdict only whether there was one.
    var fields: [String: [UInt8]] {
        var fields: [String: [UInt8]] = [:]
        if let version {
            let letter = ended ? Character(standing.rawValue.uppercased()) : standing.rawValue
            let last = String(lastTimestampSeconds)
            let record =
                text(version) + [letter.asciiValue ?? 0] + repeatElement(0x30, count: 10 - last.count) + last.utf8
            let shown = digest.map { digest in withUnsafeBytes(of: digest.bigEndian) { Array($0) } } ?? []
            fields["v"] = record + (lastSendMilliseconds == 0 ? "0" : "1").utf8 + shown
        }
        store(token, registeredAtMilliseconds, suffix: "", in: &fields)
        if !heldCommand.isEmpty { fields["h"] = heldCommand }
        if let start {
            let timestamp = String(start.timestampSeconds)
            let claim = withUnsafeBytes(of: start.claim.bigEndian) { Array($0) }
            fields["b"] =
                text(start.version) + (start.isSettled ? "s" : "a").utf8
                + repeatElement(0x30, count: 10 - timestamp.count) + timestamp.utf8 + claim
        }
        return fields
    }
}

extension DeviceState {
    var fields: [String: [UInt8]] {
        var fields: [String: [UInt8]] = [:]
        for (type, slot) in slots {
            store(slot.token, slot.registeredAtMilliseconds, suffix: ":\(type)", in: &fields)
            if let held = slot.held {
                fields["h:\(type)"] = held.command
                fields["hv:\(type)"] = text(held.version)
            }
        }
        return fields
    }
}

private func text(_ version: ScriptVersion) -> [UInt8] {
    var text = [UInt8](repeating: 0, count: ScriptVersion.textBytes)
    text.withUnsafeMutableBytes { buffer in
        if let start = buffer.baseAddress { version.write(to: start) }
    }
    return text
}

private func store(_ token: ModelToken?, _ registeredAt: Int64?, suffix: String, in fields: inout [String: [UInt8]]) {
    guard let registeredAt else { return }
    let digits = String(registeredAt)
    var stored = Array(String(repeating: "0", count: StoredTime.digits - digits.count).utf8) + Array(digits.utf8)
    if let token {
        stored += encoded(token.token, token.environment)
    }
    fields["t\(suffix)"] = Array(stored.prefix(64))
    if stored.count > 64 { fields["u\(suffix)"] = Array(stored[64...]) }
}
