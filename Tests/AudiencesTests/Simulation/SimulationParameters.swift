import Numbers
import Testbed

/// The sizes of a run, and the chances of its faults. The seed chooses them before the run begins.
struct SimulationParameters {
    /// The faults of a run. In all kinds except `calm`, pushes, calls and outgoing records may fail. Most kinds add
    /// further faults. The seed chooses the chance of each fault; it may be zero.
    enum Kind: String, CaseIterable, Sendable {
        /// No faults, so the checks expect exact numbers.
        case calm
        case faults
        /// Workers die, and partitions move.
        case crashes
        /// An APNs host or the store does not respond for a long time.
        case outages
        /// Workers die and partitions move. Each admission draws its number of ranges at random, as if the audience's
        /// size had changed. So the commands have different ranges.
        case ranges
        /// Workers die and partitions move. The fan-out topic gets more partitions, so ranges move to other owners.
        case partitions
        /// Workers die and partitions move, and the audience has channels.
        case channels
        /// The store loses all data, and the registrations and commands are read again. Workers may die. (R24)
        case wipes
        /// Workers die and partitions move. The fan-out topic gets more partitions, and the audience has channels.
        case channelPartitions

        var hasChannels: Bool { self == .channels || self == .channelPartitions }
        var addsPartitions: Bool { self == .partitions || self == .channelPartitions }
    }

    var kind: Kind
    var memberCount: Int
    var segmentCount: Int
    var rangeCount: UInt16
    var hasLongIdentifiers: Bool
    var partitionCount: Int
    var workerCount: Int
    var commandCount: Int
    var commandGapMillisecondsMax: Int
    var streamsMax: Int
    var latencyMillisecondsMax: Int
    var alertsPerMille: Int
    /// Per mille of members with a token of the sandbox.
    var sandboxPerMille: Int
    /// How often a member joins, leaves or gets another token.
    var membershipChangeCount: Int
    /// Per mille of members that are devices.
    var devicesPerMille: Int
    /// Per mille of commands that are starts.
    var startsPerMille: Int
    // The chances of faults, in per mille: of a push, a store call, an outgoing record, or a step.
    var pushFailurePerMille = 0
    var pushLossPerMille = 0
    var rateLimitPerMille = 0
    var rejectionPerMille = 0
    var deadTokenPerMille = 0
    var storeLossPerMille = 0
    var produceFailurePerMille = 0
    var crashPerMille = 0
    var rebalancePerMille = 0
    var forcedMovePerMille = 0
    var outagePerMille = 0
    var outageMillisecondsMax = 0
    /// The chance, in per mille, that a partition is added in a step with faults.
    var partitionAdditionPerMille = 0
    /// How often the store loses all data.
    var wipeCount = 0
    /// After a loss: the longest time from the beginning of the rereading until a member's registration is read again.
    var registrationRereadMillisecondsMax = 0

    /// The numbers of ranges into which a command may be divided, in runs of kind `ranges`.
    static let rangeCounts: [UInt16] = [256, 128, 64]

    init(_ random: inout SplitMix64, kind: Kind) {
        self.kind = kind
        memberCount = random.number(1...[6, 24, 60][random.number(0...2)])
        rangeCount = [256, 256, 128, 64][random.number(0...3)]
        segmentCount = random.number(1...4)
        hasLongIdentifiers = [false, false, true][random.number(0...2)]
        partitionCount = random.number(1...3)
        workerCount = kind == .calm ? 1 : random.number(1...2)
        commandCount = random.number(1...[2, 6, 12][random.number(0...2)])
        commandGapMillisecondsMax = [40, 300, 1_200, 4_000][random.number(0...3)]
        streamsMax = [1, 3, 10, 100][random.number(0...3)]
        latencyMillisecondsMax = [2, 20, 200][random.number(0...2)]
        alertsPerMille = [0, 300, 1_000][random.number(0...2)]
        sandboxPerMille = [0, 0, 300][random.number(0...2)]
        membershipChangeCount = [0, 0, 20, 80][random.number(0...3)]
        devicesPerMille = [0, 0, 500][random.number(0...2)]
        startsPerMille = devicesPerMille > 0 ? 400 : 0
        guard kind != .calm else { return }
        func randomPerMille(_ limit: Int) -> Int { random.chance(500) ? random.number(0...limit) : 0 }
        pushFailurePerMille = randomPerMille(300)
        pushLossPerMille = randomPerMille(200)
        rateLimitPerMille = randomPerMille(100)
        rejectionPerMille = randomPerMille(60)
        deadTokenPerMille = randomPerMille(60)
        storeLossPerMille = randomPerMille(60)
        produceFailurePerMille = randomPerMille(300)
        if kind == .crashes || kind == .ranges || kind.addsPartitions || kind.hasChannels {
            crashPerMille = randomPerMille(60)
            rebalancePerMille = randomPerMille(100)
            forcedMovePerMille = random.chance(500) ? 500 : 0
        }
        if kind.addsPartitions { partitionAdditionPerMille = 40 }
        if kind == .wipes {
            wipeCount = random.number(1...2)
            registrationRereadMillisecondsMax = [200, 3_000, 30_000][random.number(0...2)]
            if random.chance(300) { crashPerMille = 20 }
        }
        if kind == .outages {
            outagePerMille = random.number(20...100)
            outageMillisecondsMax = [2_000, 20_000, 3_600_000][random.number(0...2)]
        }
    }
}
