import LiveActivity

/// What the core does because of an outcome. Other facts of the record may prevent an effect.
struct OutcomeEffects: OptionSet {
    var rawValue: UInt16

    /// The command's record is also written to the dead letters.
    static var deadLetter: OutcomeEffects { OutcomeEffects(rawValue: 1 << 0) }
    /// A reread record with this outcome gets no second result, because the first one stays valid: the command was
    /// neither sent nor held this time. But if it counts superseded commands, it always gets a result. (R25)
    static var noResultIfReread: OutcomeEffects { OutcomeEffects(rawValue: 1 << 1) }
    /// The command was replaced before APNs accepted its push. So the command's alert may still be unsent.
    static var alertMayBeUnsent: OutcomeEffects { OutcomeEffects(rawValue: 1 << 2) }
    /// The token that the command brought is registered once more, because Redis may still hold commands for it. Redis
    /// returns them only when the token is registered.
    static var registersTokenAgain: OutcomeEffects { OutcomeEffects(rawValue: 1 << 3) }
    /// If the command is a start, the token that it brought is registered once more. This token starts activities on
    /// the device, and Redis may hold starts of other activities for it.
    static var registersTokenAgainIfStart: OutcomeEffects { OutcomeEffects(rawValue: 1 << 4) }

    // What the timetable of lifetimes learns (R34, R35). `Delivery+LifetimeOutcomes.swift` reads these effects.

    /// A start with this outcome shows that its activity has begun.
    static var startShowsLife: OutcomeEffects { OutcomeEffects(rawValue: 1 << 5) }
    /// An update with this outcome shows that its activity lives.
    static var updateShowsLife: OutcomeEffects { OutcomeEffects(rawValue: 1 << 6) }
    /// A start or an update with this outcome shows that its activity lives.
    static var startOrUpdateShowsLife: OutcomeEffects { [startShowsLife, updateShowsLife] }
    /// A producer's end with this outcome shows that its activity has ended.
    static var endShowsEnd: OutcomeEffects { OutcomeEffects(rawValue: 1 << 7) }
    /// A producer's end with this outcome shows that its activity has ended, if Redis replied to the end's admission.
    ///
    /// Without a reply, this record only duplicates another record of the same end in the lane, and reports nothing:
    /// Redis tells only the other record whether the end belongs to the newest life.
    static var admittedEndShowsEnd: OutcomeEffects { OutcomeEffects(rawValue: 1 << 8) }
    /// The activity had ended before this command. If the command is the end of a lifetime, another end was admitted.
    static var activityHadEnded: OutcomeEffects { OutcomeEffects(rawValue: 1 << 9) }
    /// The end of a lifetime has ended the life. If the policy says so, a restart follows.
    static var endsLife: OutcomeEffects { OutcomeEffects(rawValue: 1 << 10) }
    /// Like `endsLife`, but only if an earlier attempt of the push probably ended the activity
    /// (`wasEndedByEarlierAttempt`).
    static var endsLifeIfAttemptedBefore: OutcomeEffects { OutcomeEffects(rawValue: 1 << 11) }
    /// The end of a lifetime cannot be sent. `LifetimeKeeper` does not produce it again, and no restart follows.
    static var givesUpLifetimeEnd: OutcomeEffects { OutcomeEffects(rawValue: 1 << 12) }
    /// A restart cannot be sent, or Redis holds it until a token registers. `LifetimeKeeper` does not produce it again.
    static var givesUpRestart: OutcomeEffects { OutcomeEffects(rawValue: 1 << 13) }
}

extension Outcome {
    /// All effects of the outcome. The switch has no `default`, so that the compiler asks for the effects of a new
    /// outcome.
    var effects: OutcomeEffects {
        switch self {
        case .accepted: [.registersTokenAgainIfStart, .startOrUpdateShowsLife, .endShowsEnd, .endsLife]
        case .unchanged: [.noResultIfReread, .registersTokenAgainIfStart, .updateShowsLife]
        // A duplicate usually shows the same as an accepted command: perhaps a worker settled the command in Redis, and
        // died before the report to the timetable.
        case .duplicate:
            [.noResultIfReread, .registersTokenAgain, .startOrUpdateShowsLife, .admittedEndShowsEnd, .endsLife]
        case .superseded: [.noResultIfReread, .registersTokenAgain, .alertMayBeUnsent]
        // No token is registered again, because the command has no usable one: the token is missing, or APNs has said
        // that the update token is dead.
        case .held: [.endShowsEnd, .givesUpRestart]
        case .ended: [.noResultIfReread, .registersTokenAgain, .endShowsEnd, .activityHadEnded]
        case .expired: [.noResultIfReread, .registersTokenAgain, .givesUpLifetimeEnd, .givesUpRestart]
        // No token is registered again, because the record that brought it is wrong.
        case .invalid: [.noResultIfReread, .deadLetter, .givesUpRestart]
        // No token is registered again, because the command's token is dead.
        case .unregistered: [.endsLifeIfAttemptedBefore, .givesUpRestart]
        case .failed: [.registersTokenAgainIfStart, .givesUpLifetimeEnd, .givesUpRestart]
        case .unknown: [.registersTokenAgainIfStart, .startShowsLife]
        }
    }
}
