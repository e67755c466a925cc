import LiveActivity

/// Starts to the audience's devices, as the core produces them to the commands topic.
extension Simulation {
    func noteStart(_ text: String) {
        trace?("\(nowMilliseconds % 1_000_000) start \(text)")
        guard let number = SimulatedText.number(after: "\"id\":\"", in: text), commands[number].isStart else {
            return violations.append("a start names no command: \(text)")
        }
        let devices = phones.values.filter {
            $0.isDevice && SimulatedText.contains("\"device\":\"\($0.identifier)\"", in: text)
        }
        guard let device = devices.first, devices.count == 1 else {
            return violations.append("a start names no device: \(text)")
        }
        let activity = "match-\(device.identifier)"
        // The text is the key of the outgoing record, directly followed by its value.
        if !text.hasPrefix("\(activity){") || !SimulatedText.contains("\"activity\":\"\(activity)\"", in: text) {
            violations.append("a start of another activity than \(activity): \(text)")
        }
        guard SimulatedText.contains("\"event\":\"start\"", in: text),
            SimulatedText.number(after: "\"sequence\":", in: text) == Int(commands[number].version.sequence)
        else { return violations.append("a start is not what was commanded: \(text)") }
        phones[device.identifier]?.startCounts[number, default: 0] += 1
    }

    /// Checks that each device gets the newest start, and gets each start at most once. A crash, a forced move, a
    /// repeated outgoing record or a loss of the store may explain a second start.
    func checkStarts() {
        let starts = commands.filter { $0.isStart && $0.wasFannedOut }.map(\.number)
        guard let newest = starts.last else { return }
        let mayRepeat = hadCrash || hadForcedMove || parameters.produceFailurePerMille > 0
        for phone in phones.values where phone.isDevice {
            if phone.startCounts[newest] == nil, !mayHaveEndedWithoutMembers(phone, newest) {
                violations.append("\(phone.identifier.suffix(12)) was not begun by \(newest)")
            }
            for (start, count) in phone.startCounts
            where count > 1 && !mayRepeat && !wipe.unfinishedCommands.contains(start) {
                violations.append("\(phone.identifier.suffix(12)) was begun by \(start) \(count) times")
            }
        }
    }
}
