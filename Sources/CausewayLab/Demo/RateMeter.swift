/// Measures rates over about the last second.
struct RateMeter {
    private static let measurementMilliseconds: Int64 = 1_000

    private var lastCommandCount = 0
    private var lastPushCount = 0
    private var lastMeasuredAtMilliseconds: Int64
    private(set) var commandsPerSecond = 0
    private(set) var pushesPerSecond = 0

    init(milliseconds: Int64) {
        lastMeasuredAtMilliseconds = milliseconds
    }

    mutating func update(commands: Int, pushes: Int, milliseconds: Int64) {
        let elapsedMilliseconds = milliseconds - lastMeasuredAtMilliseconds
        guard elapsedMilliseconds >= Self.measurementMilliseconds else { return }
        commandsPerSecond = (commands - lastCommandCount) * 1_000 / Int(elapsedMilliseconds)
        pushesPerSecond = (pushes - lastPushCount) * 1_000 / Int(elapsedMilliseconds)
        lastCommandCount = commands
        lastPushCount = pushes
        lastMeasuredAtMilliseconds = milliseconds
    }
}
