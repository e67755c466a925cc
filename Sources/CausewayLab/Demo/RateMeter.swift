/// Measures rates over about the last second.
struct RateMeter {
    private static let windowMilliseconds: Int64 = 1_000

    private var lastCommands = 0
    private var lastPushes = 0
    private var lastMilliseconds: Int64
    private(set) var commandsPerSecond = 0
    private(set) var pushesPerSecond = 0

    init(milliseconds: Int64) {
        lastMilliseconds = milliseconds
    }

    mutating func update(commands: Int, pushes: Int, milliseconds: Int64) {
        let elapsedMilliseconds = milliseconds - lastMilliseconds
        guard elapsedMilliseconds >= Self.windowMilliseconds else { return }
        commandsPerSecond = (commands - lastCommands) * 1_000 / Int(elapsedMilliseconds)
        pushesPerSecond = (pushes - lastPushes) * 1_000 / Int(elapsedMilliseconds)
        lastCommands = commands
        lastPushes = pushes
        lastMilliseconds = milliseconds
    }
}
