import LiveActivity
import Numbers
import Testbed

@testable import ActivityStore
@testable import Redis

/// Random operations on one key. They use only few versions, tokens, numbers and times, so that many
/// operations have equal values.
struct OperationHistory {
    struct Step {
        /// The index of the history that the step belongs to.
        var index: Int
        var key: TestKey
        /// The server's time in UNIX microseconds.
        var microseconds: Int64
        var operation: Operation
    }

    private static let tokens: [[UInt8]] = [
        Array(String(repeating: "0af7", count: 40).utf8), Array(String(repeating: "9c", count: 32).utf8),
        Array("ABCDEF".utf8), Array("abc".utf8), Array(repeating: 0x41, count: 200), Array("00".utf8),
    ]
    private static let attributesTypes = ["GameAttributes", "RaceAttributes"]
    /// The number of activities is two above the limit of starts that Redis holds for one token, so that Redis must
    /// refuse some starts.
    private static let activities =
        (0..<StoreLimits.heldStartsMax + 2).map { String(repeating: "a", count: $0 + 1) }
    private static let updatableMilliseconds: Int64 = 8 * 3_600_000

    private var random: SplitMix64
    private let isDevice: Bool
    /// Whether most operations are starts of one device, which are held for one token. Without such histories, few
    /// histories would reach the limit of held starts, because a history has only few operations.
    private let hasMostlyHeldStarts: Bool
    /// Whether the activity or device joins and leaves audiences.
    private let isMember: Bool
    /// One command in this many is an end.
    private let commandsPerEnd: Int
    private var remainingOperationCount: Int
    private var nowMilliseconds: Int64
    /// The latest time that the history may reach. The server's own clock, which expires keys, hardly advances, so no
    /// key may expire in the model either.
    private var latestMilliseconds: Int64
    private var lastVersion = Version.at(5, 0)
    private let paces: [Policy.Pace]

    /// - Parameter paceSeed: a seed for paces that several histories share; if nil, the history has its own
    ///   paces.
    init(seed: UInt64, paceSeed: UInt64? = nil) {
        var random = SplitMix64(seed: seed &* 0xD129_0A37_5E1B_F4C5)
        isDevice = random.below(6) == 0
        hasMostlyHeldStarts = isDevice && random.below(4) == 0
        isMember = random.below(3) == 0
        commandsPerEnd = random.pick([2, 2, 8, 20])
        remainingOperationCount = 3 + random.below(18)
        nowMilliseconds = 1_760_000_000_000 + Int64(random.below(2_000_000))
        latestMilliseconds = nowMilliseconds + 20 * 3_600_000
        var paceRandom = paceSeed.map { SplitMix64(seed: $0) } ?? random
        paces = [Self.pace(&paceRandom), Self.pace(&paceRandom)]
        if paceSeed == nil { random = paceRandom }
        self.random = random
    }

    func key(at index: Int) -> TestKey { isDevice ? .device("device-\(index)") : .activity("activity-\(index)") }

    /// Returns the next step; nil at the end of the history.
    mutating func nextStep(_ index: Int) -> Step? {
        guard remainingOperationCount > 0 else { return nil }
        remainingOperationCount -= 1
        advanceClock()
        return Step(
            index: index,
            key: key(at: index),
            microseconds: nowMilliseconds * 1_000 + Int64(below(4) == 0 ? below(12) : below(1_000)),
            operation: isDevice ? deviceOperation() : activityOperation()
        )
    }

    // MARK: - Numbers and times

    private static func pace(_ random: inout SplitMix64) -> Policy.Pace {
        Policy.Pace(
            spacingMilliseconds: random.pick([0, 0, 1, 1_000, 1_000, 3_600_000]),
            throttledSpacingMillisecondsMax: random.pick([0, 1_000, 4_000, 5_000, 3_600_000]),
            throttleRecoveryMilliseconds: random.pick([1, 1_000, 60_000]),
            budget: bucket(&random),
            frequentBudget: bucket(&random)
        )
    }

    private static func bucket(_ random: inout SplitMix64) -> Policy.Bucket {
        .filling(
            intervalMilliseconds: random.pick([1, 1_000, 240_000, 3_600_000]),
            pushes: random.pick([1, 2, 3, 10_000]),
            reserved: random.pick([0, 0, 1, 2])
        )
    }

    /// Lets time pass: usually as long as a rule requires, or one millisecond less or more, to test the rule's limit.
    /// Sometimes leaves the clock as it is, or sets it back.
    private mutating func advanceClock() {
        guard below(3) != 0 else { return }
        let steps: [Int64] = [0, 1, 1_000, 2_000, 4_000, 60_000, 240_000, 3_600_000, Self.updatableMilliseconds]
        var step = pick(steps) + Int64(below(3)) - 1
        if below(12) == 0 { step = -pick(steps) / 4 }
        nowMilliseconds = min(nowMilliseconds + step, latestMilliseconds)
    }

    /// Returns the time of a registration. There are only few different times, so that two registrations
    /// often have the same one.
    private mutating func registrationTime() -> Int64 {
        below(50) == 0 ? 0 : Int64(below(12)) + (below(30) == 0 ? 12 : 0)
    }

    /// Returns the last version in half of the cases, otherwise a slightly older or newer one, or rarely the newest
    /// possible one.
    private mutating func version() -> Version {
        if below(2) == 0 { return lastVersion }
        var timestamp = max(0, lastVersion.timestamp + Int64(below(6)) - 2)
        if below(300) == 0 { timestamp = .max }
        let version = Version.at(min(timestamp, Limits.timestampMax), pick([0, 1, 1, .max]))
        if below(2) == 0 { lastVersion = version }
        return version
    }

    private mutating func token() -> OwnedToken {
        OwnedToken(
            token: pick(Self.tokens),
            environment: below(2) == 0 ? .production : .sandbox,
            registeredAtMilliseconds: registrationTime()
        )
    }

    /// Returns the number that identifies a start's draw. A real number is the time at which the budget is full after
    /// the draw. So most numbers are up to five refill intervals after the present time.
    private mutating func draw() -> Int64 {
        if below(20) == 0 { return pick([0, 1, StoredTime.millisecondsMax]) }
        let budget = pick(paces).budget
        return nowMilliseconds + Int64(below(6)) * budget.intervalMilliseconds - Int64(below(3)) * 1_000
            + Int64(below(3))
    }

    private mutating func digest() -> UInt64 { UInt64(below(4)) &* 0x9E37_79B9_7F4A_7C15 }

    private mutating func activity() -> String {
        Self.activities[below(hasMostlyHeldStarts ? Self.activities.count : 3)]
    }

    private mutating func heldCommand() -> [UInt8] { Array("held \(below(1000))".utf8) }

    /// Returns the digests of the audiences that a registration names; often nil. Most lists have at most two digests,
    /// out of four. The others have up to eight, out of 40: a member may then leave more audiences than Redis can
    /// store.
    private mutating func audiences() -> [UInt8]? {
        guard isMember, below(4) != 0 else { return nil }
        let isMany = below(3) == 0
        var digests: [UInt64] = []
        for _ in 0..<(isMany ? 8 : below(3)) {
            let digest = UInt64(below(isMany ? 40 : 4)) &* 0xD129_0A37_5E1B_F4C5
            if !digests.contains(digest) { digests.append(digest) }
        }
        return digests.flatMap { digest in (0..<8).map { UInt8(truncatingIfNeeded: digest >> ($0 * 8)) } }
    }

    // MARK: - Operations

    private mutating func activityOperation() -> Operation {
        if isMember, below(5) == 0 { return .confirmDepartures(atMilliseconds: registrationTime()) }
        switch below(25) {
        case 0..<9: return .admit(command())
        case 9:
            let previousClaim = below(3)
            return .admitStart(
                version: version(),
                claim: UInt64(below(3)) &* 0x9E37_79B9_7F4A_7C15,
                previousClaim: previousClaim == 0 ? nil : UInt64(previousClaim) &* 0x9E37_79B9_7F4A_7C15
            )
        case 10..<14:
            let version = below(3) == 0 ? version() : lastVersion
            return .hold(version: version, command: heldCommand(), carriesAlert: below(2) == 0)
        case 14..<17:
            return .register(
                token(),
                allowsFrequentUpdates: pick([true, false, nil]),
                shownVersion: below(2) == 0 ? version() : nil,
                source: pick(RegistrationSource.allCases),
                audiences: audiences()
            )
        case 17: return .unregister(atMilliseconds: registrationTime())
        case 18 where below(2) == 0: return .recordStart(version: version())
        case 18: return .reopen(version: below(3) == 0 ? version() : lastVersion)
        default: return settlement()
        }
    }

    private mutating func deviceOperation() -> Operation {
        let type = Array((hasMostlyHeldStarts ? Self.attributesTypes[0] : pick(Self.attributesTypes)).utf8)
        if isMember, below(5) == 0 { return .confirmDepartures(atMilliseconds: registrationTime()) }
        switch hasMostlyHeldStarts && below(6) != 0 ? 7 : below(16) {
        case 0..<5:
            let registration = below(4) == 0 ? token() : nil
            return .takeStartToken(attributesType: type, startBudget: pick(paces).budget, registration: registration)
        case 5..<7: return .refundStart(startBudget: pick(paces).budget, drawIdentifier: draw())
        case 7..<10: return .holdStart(heldStart(type), command: heldCommand())
        case 10..<13:
            return .registerDevice(
                attributesType: type,
                token(),
                below(2) == 0 ? .first(audiences: audiences()) : .following(heldStart(type)),
                isFromCommand: below(3) == 0
            )
        case 13..<15: return .unregister(atMilliseconds: registrationTime())
        default: return .settleStart(heldStart(type), pick([.accepted, .notShown, .unknown]), retirement: retirement())
        }
    }

    private mutating func heldStart(_ type: [UInt8]) -> HeldStart<[UInt8]> {
        HeldStart(attributesType: type, activity: Array(activity().utf8), version: version())
    }

    private mutating func command() -> StateAdmission<[UInt8]> {
        StateAdmission(
            isEnd: below(commandsPerEnd) == 0,
            version: version(),
            digest: digest(),
            pace: pick(paces),
            requestsHighPriority: below(2) == 0,
            mayUseReserve: below(2) == 0,
            mayReplaceHeldAlert: below(3) == 0,
            carriedAlertVersion: below(4) == 0 ? version() : nil,
            isTooOld: below(4) == 0,
            isReread: below(4) == 0,
            endsNewerLife: below(4) == 0,
            registration: below(6) == 0 ? token() : nil
        )
    }

    private mutating func settlement() -> Operation {
        let version = version()
        if below(6) == 0, let retirement = retirement() { return .retire(version: version, retirement) }
        let outcomes: [Settlement?] = [.accepted, .notShown, .unknown, nil]
        guard let outcome = pick(outcomes) else { return .throttle(version: version, pace: pick(paces)) }
        let alert = below(3) == 0 ? below(2) == 0 ? version : self.version() : nil
        return .settle(version: version, outcome, digest: digest(), retirement: retirement(), alert: alert)
    }

    private mutating func retirement() -> TokenRetirement<[UInt8]>? {
        guard below(4) == 0 else { return nil }
        let token = token()
        return TokenRetirement(
            token: token.token,
            environment: token.environment,
            invalidAtMilliseconds: below(3) == 0 ? nil : registrationTime()
        )
    }

    private mutating func below(_ bound: Int) -> Int { random.below(bound) }
    private mutating func pick<Element>(_ choices: [Element]) -> Element { random.pick(choices) }
}
