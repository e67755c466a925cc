import ActivityStore
import LiveActivity
import Redis

/// A command that ends an activity whose lifetime is over, or that starts the activity again.
struct LifetimeCommand: Equatable {
    /// The record key: the activity's id. Producers use the same key, so the command goes to the activity's partition.
    let key: [UInt8]
    let value: [UInt8]
    /// True: the command starts the activity again. False: it ends the activity.
    let isRestart: Bool
    /// Whether the newest update that Redis keeps is damaged, so that the new start shows an older state. The keeper
    /// must overwrite this update before it produces the start: Redis accepts no start whose state is older than the
    /// kept update (`lifetime.lua`).
    let isUpdateDamaged: Bool

    /// How long an activity waits for its restart if this worker does not know the format of the kept start or newest
    /// update. Meanwhile a worker that knows the format may claim the activity. After this time, the activity leaves
    /// the timetable, and the worker reports this.
    ///
    /// The time must be shorter than `LifetimeKeeper.activityAgeMillisecondsMax`: after that age, Redis removes the
    /// activity without a report.
    static let unknownFormatWaitMillisecondsMax = Int64(Policy.lifetimeSecondsMax) * 1_000

    /// Why this worker makes no command for a claim. After ``unknownFormat``, a worker of a newer version may make the
    /// command. After any other obstacle, no worker makes it, and the activity leaves the timetable.
    enum Obstacle: String, Error {
        case foreignEntry = "another program wrote the entry of the timetable"
        case missingStart = "Redis does not have the start"
        case damagedStart = "the start in Redis cannot be read"
        case unknownFormat = "a newer version wrote the start or the newest update in Redis"
        case unknownFormatForTooLong = "for eight hours, no worker could read the start and the newest update in Redis"
    }

    /// Makes the command that a claim asks for. Throws the reason if this worker makes no command.
    ///
    /// - Parameter commandsForRestart: has no effect if the claim asks for an end.
    init(
        _ claim: SharedRedisData.Claim,
        nowWallMilliseconds: Int64,
        commandsForRestart: CommandsForRestart
    ) throws(Obstacle) {
        let words = claim.entryText.split(separator: " ")
        guard let (app, activity) = LifetimeKey.subject(ofActivityKey: claim.name), words.count == 3,
            let beganAtWallMilliseconds = Int64(words[1])
        else { throw .foreignEntry }
        key = activity
        isRestart = Self.isRestart(claim)
        guard isRestart else {
            isUpdateDamaged = false
            value = Self.makeEndCommand(
                app: app,
                activity: activity,
                beganAtWallMilliseconds: beganAtWallMilliseconds,
                nowWallMilliseconds: nowWallMilliseconds
            )
            return
        }
        guard let keptStart = commandsForRestart.start else { throw .missingStart }
        guard let start = LifetimeKey.splitCommandKeptForRestart(keptStart) else { throw .damagedStart }
        let isWaitOver = nowWallMilliseconds - beganAtWallMilliseconds >= Self.unknownFormatWaitMillisecondsMax
        let unknownFormatObstacle = isWaitOver ? Obstacle.unknownFormatForTooLong : .unknownFormat
        guard !RestartRecord.hasUnknownFormat(start.record) else { throw unknownFormatObstacle }
        let newestUpdate = commandsForRestart.newestUpdate.flatMap(LifetimeKey.splitCommandKeptForRestart)
        guard
            let restart = RestartRecord.compose(
                start: start,
                newestUpdate: newestUpdate,
                restartAtMilliseconds: beganAtWallMilliseconds
            )
        else { throw .damagedStart }
        if let newestUpdate, newestUpdate.version > start.version, RestartRecord.hasUnknownFormat(newestUpdate.record) {
            throw unknownFormatObstacle
        }
        value = restart
        if let newestUpdate {
            isUpdateDamaged = newestUpdate.version > start.version && !RestartRecord.hasState(newestUpdate.record)
        } else {
            isUpdateDamaged = commandsForRestart.newestUpdate != nil
        }
    }

    /// Whether a claim asks for a new start of an activity.
    static func isRestart(_ claim: SharedRedisData.Claim) -> Bool { claim.entryText.hasPrefix("r") }

    /// Makes the value of an end command. The command has no alert, and no content state, so the last state stays on
    /// the screen.
    private static func makeEndCommand(
        app: [UInt8],
        activity: [UInt8],
        beganAtWallMilliseconds: Int64,
        nowWallMilliseconds: Int64
    ) -> [UInt8] {
        let aps = Array(#"{"event":"end","timestamp":\#(nowWallMilliseconds / 1_000)}"#.utf8)
        let identifier = Array(LifetimeCommandIdentifier(beganAtMilliseconds: beganAtWallMilliseconds).text.utf8)
        var writer = JSONWriter()
        app.withUnsafeBytes { app in
            activity.withUnsafeBytes { activity in
                aps.withUnsafeBytes { aps in
                    identifier.withUnsafeBytes { identifier in
                        var record = CommandRecord(app: app, activity: activity, aps: aps)
                        record.identifier = identifier
                        record.write(to: &writer)
                    }
                }
            }
        }
        return Array(writer.bytes)
    }
}

/// The records that Redis has kept for the restart of an activity. Nil: Redis has no such record.
struct CommandsForRestart {
    var start: [UInt8]?
    var newestUpdate: [UInt8]?
}
