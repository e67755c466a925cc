import Delivery
import LiveActivity
import Numbers
import Testbed

/// The sizes, limits and fault rates of a run. The seed chooses them before the run begins.
struct SimulationParameters {
    /// The subject of a run. Any run may lose replies, pushes, workers and partitions; a kind adds its own events.
    enum Kind: String, CaseIterable {
        /// Adds nothing.
        case plain
        /// Tokens come with commands, and tombstones remove tokens.
        case tokens
        /// Budgets, spacings, alerts, priorities, responses with status 429, devices with several activities, and
        /// reading ahead.
        case pace
        /// Connections of HTTP/2. They are lost, closed with GOAWAY, or get fewer streams. Streams are refused or
        /// reset.
        case connections
        /// Activities that live longer than eight hours. All workers may stop for minutes.
        case longLives
        /// States that are equal to the previous state, and commands that expire.
        case repeats
        /// Commands that are up to twelve hours old when they are written. All workers may stop for minutes, and Redis
        /// or APNs may be away for up to a minute.
        case old
        /// Outages of APNs, and commands that are deferred.
        case deferrals
        /// Registrations that name audiences, and commands to audiences.
        case audiences
        /// Activities that are started several times under the same id, with or without an end before the next start.
        /// Commands are deferred.
        case lives
        /// Redis loses its newest writes or all data, and the workers read old records again. In the other kinds Redis
        /// may lose all data too, but nothing is read again.
        case losses
    }

    /// When commands are deferred, and how often an outage of APNs begins.
    struct Deferrals {
        var deferAfterMilliseconds: Int64
        var deferredDelayMilliseconds: Int64
        /// The chance, in per mille, that an outage of APNs begins in a step of 100 ms.
        var outagePerMille: Int
        var outageMillisecondsMax: Int

        init(_ random: inout SplitMix64) {
            deferAfterMilliseconds = [300, 2_000][random.number(0...1)]
            deferredDelayMilliseconds = [500, 3_000, 8_000][random.number(0...2)]
            outagePerMille = [20, 100, 300][random.number(0...2)]
            outageMillisecondsMax = [3_000, 40_000][random.number(0...1)]
        }
    }

    /// The number of connections, and the chances of their faults in per mille. In each step of 100 ms a connection may
    /// have a fault. With each push its stream may have one.
    struct Connections {
        var connectionCount: Int
        var connectionLossPerMille: Int
        var goAwayPerMille: Int
        var streamLimitChangePerMille: Int
        var refusedStreamPerMille: Int
        var resetStreamPerMille: Int
        var lostResponsePerMille: Int
        var unknownReasonPerMille: Int
        var refusedProviderTokenPerMille: Int
        /// Per mille of pushes that a worker takes from its core and gives back, because no stream is free.
        var returnedPushPerMille: Int
        /// Per mille of the offered streams for which the pool's retry budget is empty.
        var spentRetryBudgetPerMille: Int
    }

    var workerCount: Int
    var partitionCount: Int
    var activityCount: Int
    var commandsPerActivity: Int
    var recordsMax: Int
    var pushesInFlightMax: Int
    var streamsMax: Int
    /// The maximum milliseconds between two commands of an activity.
    var commandGapMillisecondsMax: Int
    /// The longest time from an activity's first command to its last one. Runs with long lives take longer
    /// (`longLifeMilliseconds`).
    var commandPeriodMillisecondsMax: Int64 {
        Int64(commandGapMillisecondsMax * commandsPerActivity * max(1, livesPerActivityMax))
    }
    var latencyMillisecondsMax: Int
    // The chances of faults, in per mille: for each reply of Redis, each push (two faults) and each outgoing record.
    var redisLossPerMille: Int
    var pushFailurePerMille: Int
    var pushLossPerMille: Int
    var produceFailurePerMille: Int
    // The chances of faults in each step of 100 ms, in per mille.
    var rebalancePerMille: Int
    var crashPerMille: Int
    var tokenRotationPerMille: Int
    /// Whether Redis loses all data once, at a random time, and nothing is read again. A short run may end before this
    /// time.
    var wipesRedis: Bool
    /// The maximum error of each machine's wall clock in milliseconds.
    var clockSkewMillisecondsMax: Int
    /// Whether the workers know Redis' time and correct their clocks by it.
    var correctsClocks: Bool { clockSkewMillisecondsMax > 300_000 }
    /// The maximum error of each worker's wall clock in milliseconds, after the correction.
    var clockErrorMillisecondsMax: Int {
        correctsClocks ? 2 * Int(ClockCorrection.toleranceMilliseconds) : clockSkewMillisecondsMax
    }
    /// Per mille of apps that do not register their first token. Their commands bring the token.
    var appWithoutFirstRegistrationPerMille = 0
    /// For an app that does not register its first token: per mille of its later commands that bring the token. Its
    /// first command always brings the token, unless the app gets its token late (`lateTokenPerMille`).
    var suppliedTokenPerMille = 0
    /// Per mille of the apps without a first registration that get their token late. At first no command of such an app
    /// brings the token. Later, one of its commands is sent a second time, with the token.
    var lateTokenPerMille = 0
    /// Per mille of the commands that bring a retired token, in activities that have one.
    var retiredTokenPerMille = 0
    /// The chance, in per mille, that an app writes a tombstone in a step of 100 ms.
    var tombstonePerMille = 0

    var policy = Policy(name: "default")
    /// Per mille of updates and ends with an alert.
    var alertPerMille = 0
    /// Per mille of updates with a priority.
    var priorityPerMille = 0
    /// Per mille of pushes that get a 429.
    var rateLimitPerMille = 0
    /// Per mille of apps that allow frequent updates.
    var frequentUpdatesPerMille = 0
    /// The maximum number of activities that are started on one device.
    var activitiesPerDevice = 1
    /// The maximum number of starts that are held for one device.
    var heldStartsMax = 8
    var readAheadLagRecords: Int64 = 1_000_000
    /// Per mille of updates and ends that repeat the content of the activity's previous command.
    var sameContentPerMille = 0
    /// Per mille of updates that are valid for a few seconds only.
    var shortLivedPerMille = 0
    /// The connections of a worker; nil if pushes get their responses without connections.
    var connections: Connections?
    /// How commands are deferred; nil if nothing is deferred.
    var deferrals: Deferrals?
    var hasLongLives = false
    /// In runs of kind `lives`: the maximum number of starts for one activity's id. 0 in all other kinds: they start an
    /// activity at most once.
    var livesPerActivityMax = 0
    /// The chance, in per mille, that all workers stop for minutes in a step of 100 ms.
    var timeJumpPerMille = 0
    /// The chance, in per mille, that an outage of Redis or APNs begins in a step of 100 ms. An outage lasts from one
    /// second to a minute.
    var outagePerMille = 0
    /// Per mille of starts whose device registers its push-to-start token up to 9 s after the start was sent.
    var lateStartTokenPerMille = 300
    /// The ages that commands may have when they are written, in seconds. Each activity gets one of them.
    var agesSeconds: [Int64] = []

    /// In runs of kind `losses`: the maximum number of times that Redis loses data. 0 in all other kinds.
    var lossesMax = 0
    /// In runs of kind `losses`: the age of the oldest writes that Redis may lose without losing all data.
    var lostWritesMillisecondsMax: Int64 = 0

    /// The number of audiences that registrations may name; 0 if they name none.
    var audienceCount = 0

    /// Decides about a command that is superseded before Redis has seen it: it has a result of its own, or another
    /// result counts it.
    var supersededResults = SupersededResultMode.each

    /// First draws the random numbers that all kinds need, and then those of this kind. So a change of another kind
    /// does not change the runs of the kind `plain`.
    init(_ random: inout SplitMix64, kind: Kind) {
        workerCount = random.number(1...2)
        partitionCount = random.number(1...3)
        activityCount = random.number(1...6)
        commandsPerActivity = random.number(2...14)
        recordsMax = [64, 64, 128, 4096][random.number(0...3)]
        pushesInFlightMax = [1, 2, 1000][random.number(0...2)]
        streamsMax = [1, 3, 1000][random.number(0...2)]
        commandGapMillisecondsMax = [5, 300, 2_500][random.number(0...2)]
        latencyMillisecondsMax = [2, 40, 700][random.number(0...2)]
        redisLossPerMille = [0, 0, 20, 150][random.number(0...3)]
        pushFailurePerMille = [0, 0, 50, 300][random.number(0...3)]
        pushLossPerMille = [0, 0, 30, 200][random.number(0...3)]
        produceFailurePerMille = [0, 0, 100][random.number(0...2)]
        rebalancePerMille = [0, 0, 60][random.number(0...2)]
        crashPerMille = [0, 0, 25][random.number(0...2)]
        tokenRotationPerMille = [0, 0, 60][random.number(0...2)]
        wipesRedis = random.chance(100)
        // With an error of more than five minutes, a timestamp could be too far in the future, and its command would be
        // invalid. So workers with such an error correct their clocks.
        clockSkewMillisecondsMax = [0, 600_000, 240_000][random.number(0...2)]
        switch kind {
        case .plain: break
        case .tokens:
            chooseTokenParameters(&random)
            // A copy of the generator draws these numbers, so that the later random numbers of each seed stay the same.
            var randomCopy = random
            if crashPerMille == 0 && rebalancePerMille == 0 { lateTokenPerMille = [0, 600][randomCopy.number(0...1)] }
            retiredTokenPerMille = [0, 500][randomCopy.number(0...1)]
        case .pace:
            if random.chance(300) { chooseTokenParameters(&random) }
            choosePaceParameters(&random)
        case .connections:
            if random.chance(300) { choosePaceParameters(&random) }
            chooseConnections(&random)
        case .longLives:
            if random.chance(300) { chooseConnections(&random) }
            hasLongLives = true
            timeJumpPerMille = [0, 0, 30][random.number(0...2)]
            // Redis would count the eight hours of a forgotten activity from zero again, and the check of this limit
            // (`checkUpdateAge`) would fail.
            wipesRedis = false
        case .repeats:
            if random.chance(300) { choosePaceParameters(&random) }
            sameContentPerMille = [200, 600][random.number(0...1)]
            shortLivedPerMille = [0, 200, 600][random.number(0...2)]
        case .old:
            choosePaceParameters(&random)
            // No command of this kind may be deferred. A lane that is more than half full could defer a start with a
            // 429 after all workers have stopped for minutes. So the lanes have more room.
            recordsMax *= 4
            timeJumpPerMille = [0, 30][random.number(0...1)]
            outagePerMille = [0, 20][random.number(0...1)]
            lateStartTokenPerMille = 900
            agesSeconds = [0, 290, 590, 3_600, 28_790, 43_190]
        case .audiences: chooseAudienceParameters(&random)
        case .lives: chooseLives(&random)
        case .losses: chooseLosses(&random)
        case .deferrals:
            if random.chance(500) { choosePaceParameters(&random) }
            if random.chance(300) { chooseTokenParameters(&random) }
            if random.chance(200) { chooseConnections(&random) }
            deferrals = Deferrals(&random)
        }
        // A copy of the generator draws this number, so that the later random numbers of each seed stay the same.
        var randomCopy = random
        if activitiesPerDevice > 1 { heldStartsMax = kind == .old ? 1 : [8, 8, 1][randomCopy.number(0...2)] }
    }

    private mutating func chooseLives(_ random: inout SplitMix64) {
        if random.chance(500) { choosePaceParameters(&random) }
        // The checks cannot know which life a loss of data has affected.
        wipesRedis = false
        livesPerActivityMax = random.number(2...4)
        // Commands do not wait for a held start. So Redis might refuse the commands after it as `ended`.
        lateStartTokenPerMille = 0
        deferrals = Deferrals(&random)
    }

    private mutating func chooseLosses(_ random: inout SplitMix64) {
        wipesRedis = false
        lossesMax = random.number(1...3)
        lostWritesMillisecondsMax = [200, 2_000, 20_000][random.number(0...2)]
        alertPerMille = [0, 150, 500][random.number(0...2)]
        readAheadLagRecords = [1_000_000, 4, 20][random.number(0...2)]
        // No command of this kind may be deferred. A lane that is more than half full could defer a start with a 429,
        // and a rereading fills the lane. So the lanes have more room.
        recordsMax *= 4
    }

    private mutating func chooseAudienceParameters(_ random: inout SplitMix64) {
        if random.chance(500) { chooseTokenParameters(&random) }
        if random.chance(300) { choosePaceParameters(&random) }
        audienceCount = random.number(1...5)
        tokenRotationPerMille = [0, 60, 200][random.number(0...2)]
    }

    private mutating func chooseConnections(_ random: inout SplitMix64) {
        connections = Connections(
            connectionCount: random.number(1...3),
            connectionLossPerMille: [0, 40, 150][random.number(0...2)],
            goAwayPerMille: [0, 40, 150][random.number(0...2)],
            streamLimitChangePerMille: [0, 100][random.number(0...1)],
            refusedStreamPerMille: [0, 50, 300][random.number(0...2)],
            resetStreamPerMille: [0, 50, 200][random.number(0...2)],
            lostResponsePerMille: [0, 50, 200][random.number(0...2)],
            unknownReasonPerMille: [0, 0, 50][random.number(0...2)],
            refusedProviderTokenPerMille: [0, 0, 100][random.number(0...2)],
            returnedPushPerMille: [0, 100][random.number(0...1)],
            spentRetryBudgetPerMille: [0, 0, 300][random.number(0...2)]
        )
    }

    private mutating func chooseTokenParameters(_ random: inout SplitMix64) {
        appWithoutFirstRegistrationPerMille = [0, 500][random.number(0...1)]
        suppliedTokenPerMille = [0, 200, 1_000][random.number(0...2)]
        // A command that is replaced in the lane passes its token on in memory only. The token is lost with a worker or
        // a partition. In runs that lose these, every command brings the token.
        if crashPerMille > 0 || rebalancePerMille > 0 { suppliedTokenPerMille = 1_000 }
        tombstonePerMille = [0, 30][random.number(0...1)]
    }

    private mutating func choosePaceParameters(_ random: inout SplitMix64) {
        func makeBucket(_ pushes: Int, _ refillPerHour: Int, _ reserved: Int) -> Policy.Bucket {
            Policy.Bucket(pushes: pushes, refillPerHour: refillPerHour, reservedForAlerts: min(pushes, reserved))
        }
        policy.spacingMilliseconds = [1_000, 1_000, 4_000][random.number(0...2)]
        policy.throttledSpacingMillisecondsMax = policy.spacingMilliseconds * Int64([1, 4, 8][random.number(0...2)])
        policy.throttleRecoveryMilliseconds = [1_000, 20_000][random.number(0...1)]
        policy.budget = makeBucket(random.number(1...5), [60, 1_800][random.number(0...1)], random.number(0...3))
        policy.frequentBudget = makeBucket(
            random.number(5...9),
            [600, 3_600][random.number(0...1)],
            random.number(0...3)
        )
        policy.startBudget = makeBucket(random.number(1...3), [120, 3_600][random.number(0...1)], 0)
        alertPerMille = [0, 150, 500][random.number(0...2)]
        priorityPerMille = [0, 300][random.number(0...1)]
        rateLimitPerMille = [0, 50, 300][random.number(0...2)]
        frequentUpdatesPerMille = [0, 500, 1_000][random.number(0...2)]
        activitiesPerDevice = [1, 2, 6][random.number(0...2)]
        readAheadLagRecords = [1_000_000, 4, 20][random.number(0...2)]
    }
}
