import LiveActivity
import Numbers
import Testbed

@testable import ActivityStore
@testable import Redis

/// Random operations on one key. They use only few versions, tokens, numbers and times, so that many operations have
/// equal values.
struct OperationHistory {
    struct Step {
        /// The index of the history that the step belongs to.
        var index: Int
        var key: TestKey
        /// The server's time in UNIX microseconds.
        var performedAtMicroseconds: Int64
        var operation: Operation
    }

    private static let tokens: [[UInt8]] = [
        Array(String(repeating: "0af7", count: 40).utf8), Array(String(repeating: "9c", count: 32).utf8),
        Array("ABCDEF".utf8), Array("abc".utf8), Array(repeating: 0x41, count: 200), Array("00".utf8),
    ]
    private static let attributesTypes = ["GameAttributes", "RaceAttributes"]
    /// Two more activities than the starts that Redis holds for one token. So Redis must refuse some starts.
    private static let activities =
        (0..<StoreLimits.heldStartsMax + 2).map { String(repeating: "a", count: $0 + 1) }
    private static let updatableMilliseconds: Int64 = 8 * 3_600_000

    private var random: SplitMix64
    /// In one history of five, the registrations have times from here on, so some of them are too far ahead of the
    /// clock. In the others it is nil, and the times are near 0.
    private let registrationsBeginMilliseconds: Int64?
    private let isDevice: Bool
    /// Whether most operations are starts of one device, which are held for one token. A history has only few
    /// operations, so few other histories reach the limit of held starts.
    private let hasMostlyHeldStarts: Bool
    /// Whether the activity or device joins and leaves audiences.
    private let isMember: Bool
    /// Whether most operations are about one command, an update or an end. Few other histories hold a command with an
    /// alert, register a token, and admit the same command again.
    private let hasMostlyOneCommand: Bool
    /// One command in this many is an end.
    private let commandsPerEnd: Int
    private var remainingOperationCount: Int
    private var nowMilliseconds: Int64
    /// The latest time that the history may reach. The server's own clock, which expires keys, hardly advances, so no
    /// key may expire in the model either.
    private var nowMillisecondsMax: Int64
    private var lastVersion = Version.at(5, 0)
    private let paces: [Policy.Pace]

    /// - Parameter paceSeed: a seed for paces that several histories share; nil: the history has its own paces.
    init(seed: UInt64, paceSeed: UInt64? = nil) {
        var random = SplitMix64(seed: seed &* 0xD129_0A37_5E1B_F4C5)
        isDevice = random.below(6) == 0
        hasMostlyHeldStarts = isDevice && random.below(4) == 0
        isMember = random.below(3) == 0
        commandsPerEnd = random.pick([2, 2, 8, 20])
        remainingOperationCount = 3 + random.below(18)
        nowMilliseconds = 1_760_000_000_000 + Int64(random.below(2_000_000))
        nowMillisecondsMax = nowMilliseconds + 20 * 3_600_000
        // No random numbers, so that the other histories stay as they are.
        hasMostlyOneCommand = seed % 7 == 3
        registrationsBeginMilliseconds = seed % 5 == 0 ? nowMilliseconds : nil
        var paceRandom = paceSeed.map { SplitMix64(seed: $0) } ?? random
        paces = [Self.randomPace(&paceRandom), Self.randomPace(&paceRandom)]
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
            performedAtMicroseconds: nowMilliseconds * 1_000 + Int64(below(4) == 0 ? below(12) : below(1_000)),
            operation: isDevice ? randomDeviceOperation() : randomActivityOperation()
        )
    }

    // MARK: - Numbers and times

    private static func randomPace(_ random: inout SplitMix64) -> Policy.Pace {
        Policy.Pace(
            spacingMilliseconds: random.pick([0, 0, 1, 1_000, 1_000, 3_600_000]),
            throttledSpacingMillisecondsMax: random.pick([0, 1_000, 4_000, 5_000, 3_600_000]),
            throttleRecoveryMilliseconds: random.pick([1, 1_000, 60_000]),
            budget: randomBucket(&random),
            frequentBudget: randomBucket(&random)
        )
    }

    private static func randomBucket(_ random: inout SplitMix64) -> Policy.Bucket {
        var bucket = Policy.Bucket.filling(
            intervalMilliseconds: random.pick([1, 1_000, 240_000, 3_600_000]),
            pushes: random.pick([1, 2, 3, 10_000]),
            reserved: random.pick([0, 0, 1, 2])
        )
        // A bucket of two pushes has a slower one beside it. No random number, so that the histories stay as they are.
        bucket.longestFillSeconds = bucket.pushes == 2 ? 7_200 : 0
        return bucket
    }

    /// Lets time pass: usually as long as a rule requires, or one millisecond less or more. Sometimes leaves the clock
    /// as it is, or sets it back.
    private mutating func advanceClock() {
        guard below(3) != 0 else { return }
        let steps: [Int64] = [0, 1, 1_000, 2_000, 4_000, 60_000, 240_000, 3_600_000, Self.updatableMilliseconds]
        var step = pick(steps) + Int64(below(3)) - 1
        if below(12) == 0 { step = -pick(steps) / 4 }
        nowMilliseconds = min(nowMilliseconds + step, nowMillisecondsMax)
    }

    /// Returns the time of a registration. There are so few different times that two registrations often have the same.
    private mutating func randomRegistrationTime() -> Int64 {
        let number = below(50) == 0 ? 0 : Int64(below(12)) + (below(30) == 0 ? 12 : 0)
        guard let registrationsBeginMilliseconds, number > 0 else { return number }
        return registrationsBeginMilliseconds + number * RegistrationTime.leadMillisecondsMax / 3
    }

    /// Returns the last version in half of the cases, otherwise a slightly older or newer one. Rarely returns the
    /// newest possible version.
    private mutating func randomVersion() -> Version {
        if below(2) == 0 || hasMostlyOneCommand && below(8) != 0 { return lastVersion }
        var timestamp = max(0, lastVersion.timestamp + Int64(below(6)) - 2)
        if below(300) == 0 { timestamp = .max }
        let version = Version.at(min(timestamp, Limits.timestampMax), pick([0, 1, 1, .max]))
        if below(2) == 0 { lastVersion = version }
        return version
    }

    private mutating func randomToken() -> OwnedToken {
        OwnedToken(
            token: pick(Self.tokens),
            environment: below(2) == 0 ? .production : .sandbox,
            registeredAtMilliseconds: randomRegistrationTime()
        )
    }

    /// Returns the number that identifies a start's draw. Redis uses a time as this number: when the budget will be
    /// full after the draw. So most numbers here are up to five refill intervals after the present time.
    private mutating func randomDraw() -> Int64 {
        if below(20) == 0 { return pick([0, 1, StoredTime.millisecondsMax]) }
        let budget = pick(paces).budget
        return nowMilliseconds + Int64(below(6)) * budget.intervalMilliseconds - Int64(below(3)) * 1_000
            + Int64(below(3))
    }

    private mutating func randomDigest() -> UInt64 { UInt64(below(4)) &* 0x9E37_79B9_7F4A_7C15 }

    private mutating func randomActivity() -> String {
        Self.activities[below(hasMostlyHeldStarts ? Self.activities.count : 3)]
    }

    /// Returns one of few commands, so that a hold is often repeated with the same command.
    ///
    /// One of the commands carries an older alert, and one has an expiration that the clock reaches in many histories.
    private mutating func randomHeldCommand() -> [UInt8] {
        let command =
            switch below(5) {
            case 4: #"{"alertTimestamp":3,"aps":{"alertTimestamp":9}}"#
            case 3: #"{"expiration":1760003000,"aps":{"expiration":0}}"#
            case let number: "held \(number)"
            }
        return Array(command.utf8)
    }

    /// Returns the digests of the audiences that a registration names; often nil. Most lists have at most two digests,
    /// out of four. The others have up to eight, out of 40, so that a member may leave more audiences than Redis can
    /// store.
    private mutating func randomAudiences() -> [UInt8]? {
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

    private mutating func randomActivityOperation() -> Operation {
        if isMember, below(5) == 0 { return .confirmDepartures(atMilliseconds: randomRegistrationTime()) }
        switch below(25) {
        case 0..<9: return .admit(randomAdmission())
        case 9:
            let previousClaim = below(3)
            return .admitStart(
                version: randomVersion(),
                claim: UInt64(below(3)) &* 0x9E37_79B9_7F4A_7C15,
                previousClaim: previousClaim == 0 ? nil : UInt64(previousClaim) &* 0x9E37_79B9_7F4A_7C15
            )
        case 10..<14:
            let version = below(3) == 0 ? randomVersion() : lastVersion
            return .hold(version: version, command: randomHeldCommand(), hasAlert: below(2) == 0)
        case 14..<17:
            let token = randomToken()
            return .register(
                token,
                allowsFrequentUpdates: pick([true, false, nil]),
                shownVersion: below(2) == 0 ? randomVersion() : nil,
                // The versions have timestamps of few seconds, and most registrations have a time of few milliseconds.
                // The eight hours count from a time that is up to eight hours ago.
                source: pick([
                    .record, .command,
                    .reread(
                        alertsReleasedUntilMilliseconds: token.registeredAtMilliseconds
                            * (registrationsBeginMilliseconds == nil ? 1_000 : 1),
                        writtenAtMilliseconds: nowMilliseconds - token.registeredAtMilliseconds % 9 * 3_600_000
                    ),
                ]),
                audiences: randomAudiences()
            )
        case 17: return .unregister(atMilliseconds: randomRegistrationTime())
        case 18 where below(2) == 0: return .recordStart(version: randomVersion())
        case 18: return .reopen(version: below(3) == 0 ? randomVersion() : lastVersion)
        default: return randomSettlement()
        }
    }

    private mutating func randomDeviceOperation() -> Operation {
        let type = Array((hasMostlyHeldStarts ? Self.attributesTypes[0] : pick(Self.attributesTypes)).utf8)
        if isMember, below(5) == 0 { return .confirmDepartures(atMilliseconds: randomRegistrationTime()) }
        switch hasMostlyHeldStarts && below(6) != 0 ? 7 : below(16) {
        case 0..<5:
            let registration = below(4) == 0 ? randomToken() : nil
            return .takeStartToken(attributesType: type, startBudget: pick(paces).budget, registration: registration)
        case 5..<7: return .refundStart(startBudget: pick(paces).budget, drawIdentifier: randomDraw())
        case 7..<10: return .holdStart(randomHeldStart(type), command: randomHeldCommand())
        case 10..<13:
            return .registerDevice(
                attributesType: type,
                randomToken(),
                below(2) == 0
                    ? .registerToken(audiences: randomAudiences()) : .nextHeldStart(after: randomHeldStart(type)),
                isFromCommand: below(3) == 0
            )
        case 13..<15:
            return .unregister(
                atMilliseconds: randomRegistrationTime(),
                attributesType: below(2) == 0 ? nil : type
            )
        default:
            return .settleStart(
                randomHeldStart(type),
                pick([.accepted, .notShown, .unknown]),
                retirement: randomRetirement()
            )
        }
    }

    private mutating func randomHeldStart(_ type: [UInt8]) -> HeldStart<[UInt8]> {
        HeldStart(attributesType: type, activity: Array(randomActivity().utf8), version: randomVersion())
    }

    private mutating func randomAdmission() -> StateAdmission<[UInt8]> {
        var admission = StateAdmission<[UInt8]>(
            isEnd: hasMostlyOneCommand ? commandsPerEnd == 2 : below(commandsPerEnd) == 0,
            version: randomVersion(),
            digest: randomDigest(),
            pace: pick(paces),
            requestsHighPriority: below(2) == 0,
            mayUseReserve: below(2) == 0,
            mayReplaceHeldAlert: below(3) == 0,
            carriedAlertVersion: below(4) == 0 ? randomVersion() : nil,
            isTooOld: below(4) == 0,
            isReread: below(4) == 0,
            endsNewerLife: below(4) == 0,
            registration: below(6) == 0 ? randomToken() : nil
        )
        // Derived, so that the later random numbers of each seed stay the same.
        admission.isLifetimeEnd = admission.isEnd && admission.digest == 0
        return admission
    }

    private mutating func randomSettlement() -> Operation {
        let version = randomVersion()
        if below(6) == 0, let retirement = randomRetirement() { return .retire(version: version, retirement) }
        let outcomes: [Settlement?] = [.accepted, .notShown, .unknown, nil]
        guard let outcome = pick(outcomes) else { return .throttle(version: version, pace: pick(paces)) }
        let alert = below(3) == 0 ? below(2) == 0 ? version : randomVersion() : nil
        return .settle(version: version, outcome, digest: randomDigest(), retirement: randomRetirement(), alert: alert)
    }

    private mutating func randomRetirement() -> TokenRetirement<[UInt8]>? {
        guard below(4) == 0 else { return nil }
        let token = randomToken()
        return TokenRetirement(
            token: token.token,
            environment: token.environment,
            invalidAtMilliseconds: below(3) == 0 ? nil : randomRegistrationTime()
        )
    }

    private mutating func below(_ bound: Int) -> Int { random.below(bound) }
    private mutating func pick<Element>(_ choices: [Element]) -> Element { random.pick(choices) }
}
