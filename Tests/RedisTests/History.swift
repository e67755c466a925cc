import ScriptModel

@testable import Redis

/// Random operations on one address, with few versions, tokens, numbers and times, so that they meet.
struct History {
    enum Call {
        case admit(AdmitCall)
        case settle(SettleCall)
        case refundStart(BucketNumbers, draw: Int64)
    }

    struct Operation {
        /// Of its history.
        var index: Int
        var key: TestKey
        /// The server's time, UNIX microseconds.
        var microseconds: Int64
        var call: Call
    }

    private static let tokens: [[UInt8]] = [
        Array(String(repeating: "0af7", count: 40).utf8), Array(String(repeating: "9c", count: 32).utf8),
        Array("ABCDEF".utf8), Array("abc".utf8), Array(repeating: 0x41, count: 200), Array("00".utf8),
    ]
    private static let types = ["GameAttributes", "RaceAttributes"]
    /// More than are held for one token.
    private static let activities =
        (0..<RedisConnection.heldStartsMax + 2).map { String(repeating: "a", count: $0 + 1) }
    private static let lifeMilliseconds: Int64 = 8 * 3_600_000

    private var random: SplitMix
    private let isDevice: Bool
    /// Of a device: most operations are starts that are held for one token.
    private let isCrowded: Bool
    /// One command in so many is an end.
    private let endShare: Int
    private var operationsLeft: Int
    private var milliseconds: Int64
    /// The hash is not to expire: only the model's would, since the server's clock stands still.
    private var latestMilliseconds: Int64
    private var lastVersion = ScriptVersion.at(5, 0)
    private let paces: [PaceNumbers]

    /// - Parameter paceSeed: the same for histories that go by the same paces; nil: by their own.
    init(seed: UInt64, paceSeed: UInt64? = nil) {
        var random = SplitMix(state: seed &* 0xD129_0A37_5E1B_F4C5)
        isDevice = random.below(6) == 0
        isCrowded = isDevice && random.below(4) == 0
        endShare = random.pick([2, 2, 8, 20])
        operationsLeft = 3 + random.below(18)
        milliseconds = 1_760_000_000_000 + Int64(random.below(2_000_000))
        latestMilliseconds = milliseconds + 20 * 3_600_000
        var paceRandom = paceSeed.map { SplitMix(state: $0) } ?? random
        paces = [Self.pace(&paceRandom), Self.pace(&paceRandom)]
        if paceSeed == nil { random = paceRandom }
        self.random = random
    }

    func key(at index: Int) -> TestKey { isDevice ? .device("device-\(index)") : .activity("activity-\(index)") }

    /// Nil at the end.
    mutating func next(_ index: Int) -> Operation? {
        guard operationsLeft > 0 else { return nil }
        operationsLeft -= 1
        pass()
        return Operation(
            index: index,
            key: key(at: index),
            microseconds: milliseconds * 1_000 + Int64(below(4) == 0 ? below(12) : below(1_000)),
            call: isDevice ? onDevice() : onActivity()
        )
    }

    // MARK: - Numbers and times

    private static func pace(_ random: inout SplitMix) -> PaceNumbers {
        PaceNumbers(
            spacingMilliseconds: random.pick([0, 0, 1, 1_000, 1_000, 3_600_000]),
            throttledSpacingMaxMilliseconds: random.pick([0, 1_000, 4_000, 5_000, 3_600_000]),
            throttleRecoveryMilliseconds: random.pick([1, 1_000, 60_000]),
            budget: bucket(&random),
            frequentBudget: bucket(&random)
        )
    }

    private static func bucket(_ random: inout SplitMix) -> BucketNumbers {
        BucketNumbers(
            intervalMilliseconds: random.pick([1, 1_000, 240_000, 3_600_000]),
            pushes: random.pick([1, 2, 3, 10_000]),
            reserved: random.pick([0, 0, 1, 2])
        )
    }

    /// Time passes by as much as something hangs on, one more or one less; and now and then a clock is set back.
    private mutating func pass() {
        guard below(3) != 0 else { return }
        let steps: [Int64] = [0, 1, 1_000, 2_000, 4_000, 60_000, 240_000, 3_600_000, Self.lifeMilliseconds]
        var step = pick(steps) + Int64(below(3)) - 1
        if below(12) == 0 { step = -pick(steps) / 4 }
        milliseconds = min(milliseconds + step, latestMilliseconds)
    }

    /// Of registrations: few and small.
    private mutating func time() -> Int64 { below(50) == 0 ? 0 : Int64(below(12)) + (below(30) == 0 ? 12 : 0) }

    /// Often the last one again, else one a little older or newer.
    private mutating func version() -> ScriptVersion {
        if below(2) == 0 { return lastVersion }
        var timestamp = UInt64(max(0, Int64(lastVersion.timestampSeconds) + Int64(below(6)) - 2))
        if below(300) == 0 { timestamp = .max }
        let version = ScriptVersion.at(min(timestamp, ScriptVersion.timestampSecondsMax), pick([0, 1, 1, .max]))
        if below(2) == 0 { lastVersion = version }
        return version
    }

    private mutating func token() -> ModelToken {
        ModelToken(
            token: pick(Self.tokens),
            environment: below(2) == 0 ? .production : .sandbox,
            registeredAtMilliseconds: time()
        )
    }

    /// Of a start, about as many intervals ahead as draws make it.
    private mutating func draw() -> Int64 {
        if below(20) == 0 { return pick([0, 1, TokenRegistration.registeredAtMillisecondsMax]) }
        let budget = pick(paces).budget
        return milliseconds + Int64(below(6)) * budget.intervalMilliseconds - Int64(below(3)) * 1_000 + Int64(below(3))
    }

    private mutating func digest() -> UInt64 { UInt64(below(4)) &* 0x9E37_79B9_7F4A_7C15 }

    private mutating func activity() -> String { Self.activities[below(isCrowded ? Self.activities.count : 3)] }

    private mutating func heldCommand() -> [UInt8] { Array("held \(below(1000))".utf8) }

    // MARK: - Operations

    private mutating func onActivity() -> Call {
        switch below(24) {
        case 0..<9: return .admit(command())
        case 9: return .admit(.start(version: version(), claim: UInt64(below(2)) &* 0x9E37_79B9_7F4A_7C15))
        case 10..<14:
            let version = below(3) == 0 ? version() : lastVersion
            let hold = AdmitCall.hold(
                attributesType: nil,
                version: version,
                command: heldCommand(),
                carriesAlert: below(2) == 0
            )
            return .admit(hold)
        case 14..<17:
            let register = AdmitCall.register(
                attributesType: nil,
                registration: token(),
                frequentUpdates: pick([true, false, nil]),
                shows: below(2) == 0 ? version() : nil
            )
            return .admit(register)
        case 17: return .admit(.unregister(attributesType: nil, atMilliseconds: time()))
        default: return .settle(settlement(nil))
        }
    }

    private mutating func onDevice() -> Call {
        let type = isCrowded ? Self.types[0] : pick(Self.types)
        switch isCrowded && below(6) != 0 ? 7 : below(16) {
        case 0..<5:
            let registration = below(4) == 0 ? token() : nil
            return .admit(.address(attributesType: type, startBudget: pick(paces).budget, registration: registration))
        case 5..<7: return .refundStart(pick(paces).budget, draw: draw())
        case 7..<10:
            let hold = AdmitCall.hold(
                attributesType: type,
                activity: activity(),
                version: version(),
                command: heldCommand(),
                carriesAlert: below(2) == 0
            )
            return .admit(hold)
        case 10..<13:
            let after = below(3) == 0 ? nil : HeldStartPlace(activity: activity(), version: version())
            return .admit(
                .register(
                    attributesType: type,
                    registration: token(),
                    frequentUpdates: below(2) == 0,
                    shows: nil,
                    after: after
                )
            )
        case 13: return .admit(.unregister(attributesType: type, atMilliseconds: time()))
        case 14: return .admit(.unregisterAll(atMilliseconds: time()))
        default: return .settle(settlement(type))
        }
    }

    private mutating func command() -> AdmitCall {
        .command(
            event: below(endShare) == 0 ? .end : .update,
            version: version(),
            digest: digest(),
            pace: pick(paces),
            request: PushRequest(isHigh: below(2) == 0, mayUseReserve: below(2) == 0, carriesAlert: below(3) == 0),
            registration: below(6) == 0 ? token() : nil
        )
    }

    private mutating func settlement(_ type: String?) -> SettleCall {
        var call = SettleCall(
            attributesType: type,
            activity: activity(),
            version: below(8) == 0 ? nil : version(),
            outcome: pick([.accepted, .notShown, .unknown, .limited]),
            digest: digest()
        )
        if call.outcome == .limited { call.pace = pick(paces) }
        if below(4) == 0 {
            let token = token()
            call.retirement = .init(
                token: token.token,
                environment: token.environment,
                invalidAtMilliseconds: below(3) == 0 ? nil : time()
            )
        }
        return call
    }

    private mutating func below(_ bound: Int) -> Int { random.below(bound) }
    private mutating func pick<Element>(_ choices: [Element]) -> Element { random.pick(choices) }
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

    mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
    mutating func pick<Element>(_ choices: [Element]) -> Element { choices[below(choices.count)] }
}
