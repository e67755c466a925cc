import Redis

/// The commands that a worker makes for the activities that it has just claimed in one timetable.
struct LifetimeCommandBatch {
    private(set) var commands: [LifetimeCommand] = []
    /// The claims whose newest update must be replaced before the commands are produced
    /// (`LifetimeCommand.isUpdateDamaged`).
    private(set) var claimsWithDamagedUpdate: [(SharedRedisData.Claim, CommandsForRestart)] = []
    /// Claims for which no worker can make a command, each with the reason. Their activities must leave the timetable.
    /// The reason is never `unknownFormat`: such an activity stays in the timetable.
    private(set) var claimsToAbandon: [(SharedRedisData.Claim, LifetimeCommand.Obstacle)] = []

    /// - Parameter commandsForRestartByName: the key is the activity's name in the timetable.
    init(_ claimedEntries: SharedRedisData.ClaimedEntries, commandsForRestartByName: [[UInt8]: CommandsForRestart]) {
        for claim in claimedEntries.claims {
            let commandsForRestart = commandsForRestartByName[claim.name] ?? CommandsForRestart()
            do throws(LifetimeCommand.Obstacle) {
                let command = try LifetimeCommand(
                    claim,
                    nowWallMilliseconds: claimedEntries.nowWallMilliseconds,
                    commandsForRestart: commandsForRestart
                )
                if command.isUpdateDamaged { claimsWithDamagedUpdate.append((claim, commandsForRestart)) }
                commands.append(command)
            } catch {
                // If only the format of the kept records is unknown, the activity stays in the timetable, because a
                // worker of a newer version can read them.
                if error != .unknownFormat { claimsToAbandon.append((claim, error)) }
            }
        }
    }
}
