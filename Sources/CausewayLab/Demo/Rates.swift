/// Measures rates over about the last second.
struct Rates {
    private static let windowMilliseconds: Int64 = 1_000

    private var commands = 0
    private var pushes = 0
    private var milliseconds: Int64
    private(set) var commandsPerSecond = 0
    private(set) var pushesPerSecond = 0

    init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    mutating func update(commands: Int, pushes: Int, milliseconds: Int64) {
        let passed = milliseconds - self.milliseconds
        guard passed >= Self.windowMilliseconds else { return }
        commandsPerSecond = (commands - self.commands) * 1_000 / Int(passed)
        pushesPerSecond = (pushes - self.pushes) * 1_000 / Int(passed)
        self.commands = commands
        self.pushes = pushes
        self.milliseconds = milliseconds
    }
}
