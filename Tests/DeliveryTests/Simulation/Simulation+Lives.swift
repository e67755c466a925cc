import Delivery
import LiveActivity
import Testbed

/// Activities that are started several times under the same id. Each start begins a new life: the phone shows a new
/// activity with a new token, and the token of the earlier life is dead.
extension Simulation {
    func makeActivityWithLives(_ activity: String, device: String) {
        var time = now + Int64(random.number(0...500))
        phones[activity] = SimulatedPhone(activity: activity, device: device)
        registerPushToStartToken(
            device,
            at: time + Int64(random.chance(parameters.lateStartTokenPerMille) ? random.number(0...9_000) : -100)
        )
        let lifeCount = random.number(1...parameters.livesPerActivityMax)
        var sequence: UInt64 = 0
        var content = 0
        for life in 1...lifeCount {
            sequence += 1
            content += 1
            send(activity, .start, sequence: sequence, content: content, device: device, at: time)
            lastStarts[activity] = "\(activity)#\(sequence)"
            let commandCount = random.number(1...parameters.commandsPerActivity)
            for number in 1...commandCount {
                time += Int64(random.number(0...parameters.commandGapMillisecondsMax))
                sequence += 1
                content += 1
                let isEnd = number == commandCount && random.chance(800)
                if number == commandCount {
                    finalCommands[activity] = (version(of: activity, at: time, sequence), content, isEnd)
                }
                // A start drops the alerts of the earlier life, so only the last life has alerts.
                send(
                    activity,
                    isEnd ? .end : .update,
                    sequence: sequence,
                    content: content,
                    mayRing: life == lifeCount,
                    at: time
                )
            }
            time += Int64(random.number(0...parameters.commandGapMillisecondsMax))
        }
    }
}
