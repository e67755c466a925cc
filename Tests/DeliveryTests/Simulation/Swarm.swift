/// What one seed draws before it runs: sizes, limits and fault rates, so that seeds differ in kind and not only in order.
struct Swarm {
    var workers: Int
    var partitions: Int
    var activities: Int
    var commandsPerActivity: Int
    var recordsMax: Int
    var inFlightMax: Int
    var streams: Int
    /// Milliseconds between two commands of an activity, at most.
    var commandGap: Int
    var latencyMax: Int
    /// Per mille of calls, pushes, records and of 100 ms steps.
    var redisLoss: Int
    var pushFailure: Int
    var pushLoss: Int
    var productionFailure: Int
    var rebalance: Int
    var crash: Int
    var tokenRotation: Int
    /// Redis forgets everything once, in the middle.
    var wipesRedis: Bool
    /// Milliseconds that each worker's wall clock is off, at most.
    var clockSkew: Int
    /// Per mille of apps that never register, whose tokens come with their commands.
    var silentApp = 0
    /// Per mille of a silent app's commands that bring the token, beside the first.
    var suppliedToken = 0
    /// Per mille of 100 ms steps.
    var tombstone = 0

    /// - Parameter bringsTokens: whether tokens may come with commands, and tombstones take them away. Drawn last, so that a seed
    ///   without them stays the run that it was.
    init(_ random: inout SimulationRandom, bringsTokens: Bool) {
        workers = random.number(1...2)
        partitions = random.number(1...3)
        activities = random.number(1...6)
        commandsPerActivity = random.number(2...14)
        recordsMax = [64, 64, 128, 4096][random.number(0...3)]
        inFlightMax = [1, 2, 1000][random.number(0...2)]
        streams = [1, 3, 1000][random.number(0...2)]
        commandGap = [5, 300, 2_500][random.number(0...2)]
        latencyMax = [2, 40, 700][random.number(0...2)]
        redisLoss = [0, 0, 20, 150][random.number(0...3)]
        pushFailure = [0, 0, 50, 300][random.number(0...3)]
        pushLoss = [0, 0, 30, 200][random.number(0...3)]
        productionFailure = [0, 0, 100][random.number(0...2)]
        rebalance = [0, 0, 60][random.number(0...2)]
        crash = [0, 0, 25][random.number(0...2)]
        tokenRotation = [0, 0, 60][random.number(0...2)]
        wipesRedis = random.chance(100)
        clockSkew = [0, 0, 600_000][random.number(0...2)]
        guard bringsTokens else { return }
        silentApp = [0, 500][random.number(0...1)]
        suppliedToken = [0, 200, 1_000][random.number(0...2)]
        // A token is passed on in memory only when its command is merged into a newer one, so a worker that goes away may lose it.
        if crash > 0 || rebalance > 0 { suppliedToken = 1_000 }
        tombstone = [0, 30][random.number(0...1)]
    }
}
