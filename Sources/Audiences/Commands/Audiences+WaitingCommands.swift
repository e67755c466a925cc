import Delivery
import LiveActivity

/// The commands that wait in an audience. If no start comes between them, a newer update replaces an older one, and a
/// newer end replaces older updates and ends. `Delivery+Waiting.swift` defines the words merge, replace and supersede.
/// A rider is an older command whose alert a newer command carries.
///
/// The commands of an audience are linked through their slots, in the order in which they will be admitted. A command
/// is in the phase `waiting` before it is added to the list.
extension Audiences {
    /// Adds a command to those that wait in its audience, and merges it with the last of them if both are updates or
    /// ends (``merge(_:with:of:)``). If the audience's current command or its rider has the same version, finishes the
    /// added command as a duplicate.
    ///
    /// A waiting end does not finish an update as `ended`, because Redis may know a start that has begun a new life
    /// since the end. (R13)
    mutating func enqueue(_ command: CommandIndex) {
        let audience = commands[command].audience
        let current = audiences[audience].currentCommand
        let lastWaiting = audiences[audience].waitingCommands.last
        if current != .null {
            if commands[current].version == commands[command].version { return finishDuplicate(command, of: current) }
            let rider = commands[current].rider
            // `command` is another copy of the rider. If it waited in the list, a newer command could carry its alert
            // too, and the alert would ring twice.
            if rider != .null, commands[rider].version == commands[command].version {
                return finishDuplicate(command, of: rider)
            }
        }
        // A start is for devices, updates and ends are for activities. So a start replaces no other command, and none
        // replaces it.
        guard lastWaiting != .null, commands[lastWaiting].event != .start, commands[command].event != .start else {
            return audiences[audience].waitingCommands.append(command, in: &commands)
        }
        merge(command, with: lastWaiting, of: audience)
    }

    /// Merges `command`, which is in no list, with `waiting`, which is in the audience's list. Each is an update or an
    /// end. The newer one is kept, in the place of `waiting`, and supersedes the older one. Exceptions:
    /// - If the versions are equal, `command` is finished as a duplicate.
    /// - An older end and a newer update are both kept (`keepEndAndNewerUpdate`).
    /// - If `command` is older than `waiting` and than an end directly before `waiting`, that end supersedes `command`.
    mutating func merge(_ command: CommandIndex, with waiting: CommandIndex, of audience: AudienceIndex) {
        let (newer, older) =
            commands[waiting].version < commands[command].version ? (command, waiting) : (waiting, command)
        if commands[waiting].version == commands[command].version {
            finishDuplicate(command, of: waiting)
        } else if commands[older].event == .end, commands[newer].event == .update {
            keepEndAndNewerUpdate(end: older, update: newer, waiting: waiting, of: audience)
        } else if older == command, let end = findEndBefore(waiting, newerThan: older, of: audience) {
            // `end` and `older` belong to the same life, so let `end` carry the alert of `older`. The update `waiting`
            // may belong to a later life.
            supersedeCommand(older, by: end)
        } else {
            // Put `newer` in the place of `older`. At the end of the list, it might wait behind a newer start.
            if older == waiting { audiences[audience].waitingCommands.replace(older, by: newer, in: &commands) }
            supersedeCommand(older, by: newer)
            if commands[newer].event == .end { supersedeOlderNeighbours(of: newer, of: audience) }
        }
    }

    /// Finishes `duplicate`, which has the same version as `kept`.
    ///
    /// If both are copies of one record, this lane has lost the partition, got it back, and read the record again. Then
    /// `kept` gets the new copy, and the old copy is returned to `Delivery`. If the new copy were returned, its offset
    /// would settle before `kept` is fanned out, and a crash would lose the command.
    mutating func finishDuplicate(_ duplicate: CommandIndex, of kept: CommandIndex) {
        let (newRecord, oldRecord) = (commands[duplicate].record, commands[kept].record)
        if commands[duplicate].partition == commands[kept].partition,
            commands[duplicate].offset == commands[kept].offset
        {
            commands[kept].record = newRecord
            commands[duplicate].record = oldRecord
        }
        finishCommand(duplicate, .outcome(.duplicate))
    }

    /// Keeps both an end and a newer update, with the end directly before the update in the audience's list. One of the
    /// two is `waiting`, which is in the list already. The other is added beside it. If another update or end waits at
    /// this place, the added command is merged with that one instead.
    private mutating func keepEndAndNewerUpdate(
        end: CommandIndex,
        update: CommandIndex,
        waiting: CommandIndex,
        of audience: AudienceIndex
    ) {
        if waiting == update {
            let list = audiences[audience].waitingCommands
            guard let predecessor = list.predecessor(of: update, in: commands), commands[predecessor].event != .start
            else {
                return audiences[audience].waitingCommands.insert(end, before: update, in: &commands)
            }
            merge(end, with: predecessor, of: audience)
        } else {
            let next = commands[end].nextInList
            guard next != .null, commands[next].event != .start else {
                return audiences[audience].waitingCommands.insert(update, behind: end, in: &commands)
            }
            merge(update, with: next, of: audience)
        }
    }

    /// Returns the end that waits directly before `waiting`, if this end is newer than `command`; else nil.
    private func findEndBefore(_ waiting: CommandIndex, newerThan command: CommandIndex, of audience: AudienceIndex)
        -> CommandIndex?
    {
        guard let end = audiences[audience].waitingCommands.predecessor(of: waiting, in: commands),
            commands[end].event == .end, commands[end].version > commands[command].version
        else { return nil }
        return end
    }

    /// Supersedes the updates and ends directly before and behind `end` that are older than `end`. There are such
    /// neighbours if `end` has just got the place of a command that it has superseded.
    private mutating func supersedeOlderNeighbours(of end: CommandIndex, of audience: AudienceIndex) {
        func isOlderUpdateOrEnd(_ neighbour: CommandIndex) -> Bool {
            neighbour != .null && commands[neighbour].event != .start
                && commands[neighbour].version < commands[end].version
        }
        let predecessor = audiences[audience].waitingCommands.predecessor(of: end, in: commands) ?? .null
        for neighbour in [predecessor, commands[end].nextInList] where isOlderUpdateOrEnd(neighbour) {
            audiences[audience].waitingCommands.remove(neighbour, in: &commands)
            supersedeCommand(neighbour, by: end)
        }
    }

    /// Supersedes `older`. If `older` requests a channel, `newer` now requests it. If `older` has an alert, `newer`
    /// carries this alert, except in three cases:
    /// - `newer` has an alert of its own.
    /// - The body of `newer` has no room for the alert.
    /// - The audience's current command has a newer alert (`hasAlertOlderThanCurrent`).
    ///
    /// If `older` is another copy of the rider of `newer`, it is finished as a duplicate (`finishDuplicate`). If it
    /// were superseded, its record would settle before `newer` is fanned out, and a crash would lose the alert.
    ///
    /// If `newer` carries the alert, the command that brought the alert becomes the rider of `newer`, and both end
    /// together. Every other superseded command is finished now.
    private mutating func supersedeCommand(_ older: CommandIndex, by newer: CommandIndex) {
        if commands[older].requestsChannel { commands[newer].requestsChannel = true }
        let currentRider = commands[newer].rider
        if currentRider != .null, commands[currentRider].version == commands[older].version {
            return finishDuplicate(older, of: currentRider)
        }
        guard commands[older].hasAlert, !commands[newer].hasAlert, !hasAlertOlderThanCurrent(older),
            PushBody.byteCount(
                commands[newer].body.bytes,
                commands[newer].bodyLayout,
                carryingAlertBytes: commands[older].alert.count
            ) <= bodyBytesMax(of: commands[newer].audience)
        else { return finishCommand(older, .outcome(.superseded)) }
        precondition(commands[newer].rider == .null, "a command without an alert has no rider")
        let (body, layout) = Self.bodyWithAlert(
            commands[older].alert,
            on: commands[newer].body.bytes,
            commands[newer].bodyLayout
        )
        commands[newer].body.free()
        commands[newer].body = body
        commands[newer].bodyLayout = layout
        commands[newer].carriedAlertVersion = alertVersion(of: older)
        let rider = commands[older].rider
        guard rider == .null else {
            // The alert came from `rider`, an even older command. `newer` carries it from now on, so `older` can end.
            commands[older].rider = .null
            commands[newer].rider = rider
            return finishCommand(older, .outcome(.superseded))
        }
        commands[older].enter(.riding)
        commands[newer].rider = older
    }

    /// Whether the audience's current command has a newer alert than `command`, so that the alert of `command` must not
    /// ring after it. (R14) A command with such an old alert may wait, for example, because its record was read again.
    ///
    /// The alert of a start does not count, because it rings on other activities.
    private func hasAlertOlderThanCurrent(_ command: CommandIndex) -> Bool {
        let current = audiences[commands[command].audience].currentCommand
        guard current != .null, commands[current].hasAlert, commands[current].event != .start else { return false }
        return alertVersion(of: command) < alertVersion(of: current)
    }

    /// Returns the version of the command whose alert `command` has: an older command's if `command` carries its alert
    /// (`carriedAlertVersion`), otherwise its own.
    func alertVersion(of command: CommandIndex) -> Version {
        commands[command].carriedAlertVersion ?? commands[command].version
    }
}
