import Numbers
import Testbed

/// The sizes and the chances of faults in a run, which the seed determines before the run begins.
struct SimulationParameters {
    /// In all kinds but `calm`, pushes, calls and outgoing records may fail. Some runs lack a fault that their kind
    /// names.
    enum Kind: String, CaseIterable, Sendable {
        /// No faults, so the checks expect exact numbers.
        case calm
        case faults
        /// Workers die, and partitions move.
        case crashes
        /// An APNs host or the store does not respond for a long time.
        case outages
        /// Workers die and partitions move. Each admission draws its number of ranges at random, as if the audience's
        /// size had changed, so the commands have different ranges.
        case ranges
        /// Workers die and partitions move. The fan-out topic gets more partitions, so that ranges move to
        /// other partitions and owners.
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
    var members: Int
    var segments: Int
    var rangeCount: UInt16
    var idBytes: Int
    var partitions: Int
    var workers: Int
    var commands: Int
    var commandGapMillisecondsMax: Int
    var streams: Int
    var latencyMillisecondsMax: Int
    var alertsPerMille: Int
    var sandboxPerMille: Int
    var changes: Int
    // How many of the members are devices, and how many of the commands are starts, in per mille.
    var devicesPerMille: Int
    var startsPerMille: Int
    // The chances of faults, in per mille.
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
    /// The chance that a partition is added, in per mille.
    var partitionAdditionPerMille = 0
    /// The number of times that the store loses all data.
    var wipes = 0
    /// When the workers begin to read again after a loss, they read a member's registration at most this many
    /// milliseconds later.
    var returnMillisecondsMax = 0

    /// The numbers of ranges into which a command may be divided.
    static let rangeCounts: [UInt16] = [256, 128, 64]

    init(_ random: inout SplitMix64, kind: Kind) {
        self.kind = kind
        members = random.number(1...[6, 24, 60][random.number(0...2)])
        rangeCount = [256, 256, 128, 64][random.number(0...3)]
        segments = random.number(1...4)
        idBytes = [0, 0, 200][random.number(0...2)]
        partitions = random.number(1...3)
        workers = kind == .calm ? 1 : random.number(1...2)
        commands = random.number(1...[2, 6, 12][random.number(0...2)])
        commandGapMillisecondsMax = [40, 300, 1_200, 4_000][random.number(0...3)]
        streams = [1, 3, 10, 100][random.number(0...3)]
        latencyMillisecondsMax = [2, 20, 200][random.number(0...2)]
        alertsPerMille = [0, 300, 1_000][random.number(0...2)]
        sandboxPerMille = [0, 0, 300][random.number(0...2)]
        changes = [0, 0, 20, 80][random.number(0...3)]
        devicesPerMille = [0, 0, 500][random.number(0...2)]
        startsPerMille = devicesPerMille > 0 ? 400 : 0
        guard kind != .calm else { return }
        func randomPerMille(_ most: Int) -> Int { random.chance(500) ? random.number(0...most) : 0 }
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
            wipes = random.number(1...2)
            returnMillisecondsMax = [200, 3_000, 30_000][random.number(0...2)]
            if random.chance(300) { crashPerMille = 20 }
        }
        if kind == .outages {
            outagePerMille = random.number(20...100)
            outageMillisecondsMax = [2_000, 20_000, 3_600_000][random.number(0...2)]
        }
    }
}
