/// Measures the rates of commands and pushes over about the last second.
struct RateMeter {
    private static let measurementMilliseconds: Int64 = 1_000

    private var lastCommandCount = 0
    private var lastPushCount = 0
    private var lastMeasuredAtMilliseconds: Int64
    private(set) var commandsPerSecond = 0
    private(set) var pushesPerSecond = 0

    init(beganAtMilliseconds: Int64) {
        lastMeasuredAtMilliseconds = beganAtMilliseconds
    }

    mutating func update(at nowMilliseconds: Int64, commandCount: Int, pushCount: Int) {
        let elapsedMilliseconds = nowMilliseconds - lastMeasuredAtMilliseconds
        guard elapsedMilliseconds >= Self.measurementMilliseconds else { return }
        commandsPerSecond = (commandCount - lastCommandCount) * 1_000 / Int(elapsedMilliseconds)
        pushesPerSecond = (pushCount - lastPushCount) * 1_000 / Int(elapsedMilliseconds)
        lastCommandCount = commandCount
        lastPushCount = pushCount
        lastMeasuredAtMilliseconds = nowMilliseconds
    }
}
