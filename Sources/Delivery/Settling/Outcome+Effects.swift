import LiveActivity

/// What the core does because of an outcome.
struct OutcomeEffects: OptionSet {
    var rawValue: UInt8

    /// The command's record is also written to the dead letters.
    static var deadLetter: OutcomeEffects { OutcomeEffects(rawValue: 1) }
    /// A reread record with this outcome needs no second result: it was neither sent nor held this time, so its first
    /// result stays valid. But if it counts superseded commands, it always gets a result. (R25)
    static var noResultIfReread: OutcomeEffects { OutcomeEffects(rawValue: 2) }
    /// Redis keeps the command until a token registers. After an outcome without this effect, a held start leaves the
    /// key of its device.
    static var commandIsHeld: OutcomeEffects { OutcomeEffects(rawValue: 4) }
    /// A newer command replaced this one before APNs accepted it. So the command's alert may still be unsent.
    static var alertMayBeUnsent: OutcomeEffects { OutcomeEffects(rawValue: 8) }
    /// The outcome of an update shows that its activity had ended before.
    static var activityHadEnded: OutcomeEffects { OutcomeEffects(rawValue: 16) }
    /// The token that the command brought is registered once more, because Redis may still hold commands for it. Redis
    /// returns them only when the token is registered.
    static var registersTokenAgain: OutcomeEffects { OutcomeEffects(rawValue: 32) }
    /// If the command is a start, its token is registered once more: Redis may hold starts of other activities for this
    /// token of the device.
    static var registersTokenAgainIfStart: OutcomeEffects { OutcomeEffects(rawValue: 64) }
}

extension Outcome {
    /// All effects of the outcome. The switch has no `default`, so that the compiler asks for those of a new outcome.
    var effects: OutcomeEffects {
        switch self {
        case .accepted: .registersTokenAgainIfStart
        case .unchanged: [.noResultIfReread, .registersTokenAgainIfStart]
        case .duplicate: [.noResultIfReread, .registersTokenAgain]
        case .superseded: [.noResultIfReread, .registersTokenAgain, .alertMayBeUnsent]
        // No token is registered again, because the command has no usable one: the token is missing, or APNs has said
        // that the update token is dead.
        case .held: .commandIsHeld
        case .ended: [.noResultIfReread, .registersTokenAgain, .activityHadEnded]
        case .expired: [.noResultIfReread, .registersTokenAgain]
        // No token is registered again, because the record that brought it is wrong.
        case .invalid: [.noResultIfReread, .deadLetter]
        // No token is registered again, because the command's token is dead.
        case .unregistered: []
        case .failed: .registersTokenAgainIfStart
        case .unknown: .registersTokenAgainIfStart
        }
    }
}
