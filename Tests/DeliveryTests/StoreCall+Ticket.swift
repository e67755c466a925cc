import Delivery
import LiveActivity

extension StoreCall {
    /// The ticket that the core wrote into the call's tag. Traps if the tag is not a ticket of the core.
    var ticket: StoreTicket {
        guard let ticket = StoreTicket(tag: tag) else { preconditionFailure("the core made a tag that it cannot read") }
        return ticket
    }

    var admission: StateAdmission<Bytes>? {
        if case .admit(let admission) = operation { admission } else { nil }
    }

    var claim: UInt64? {
        if case .admitStart(_, let claim, _) = operation { claim } else { nil }
    }

    var previousClaim: UInt64? {
        if case .admitStart(_, _, let claim) = operation { claim } else { nil }
    }

    /// The token that the call registers, if any.
    var registration: TokenRegistration<Bytes>? {
        switch operation {
        case .admit(let admission): admission.registration
        case .takeStartToken(_, _, let registration): registration
        case .register(let registration, _, _, _, _): registration
        case .registerDevice(_, let registration, _, _): registration
        default: nil
        }
    }

    /// The digests of the audiences that a registration names. Empty: the member leaves all audiences. Nil: the call
    /// changes no membership.
    var namedAudiences: Bytes? {
        switch operation {
        case .register(_, _, _, _, let audiences): audiences
        case .registerDevice(_, _, let step, _): step.audiences
        default: nil
        }
    }

    /// A device's registration releases held starts one by one, with a call for each. This is the start that the
    /// previous call released; nil in the first call. Redis then releases the start after it.
    var previousHeldStart: HeldStart<Bytes>? {
        if case .registerDevice(_, _, let step, _) = operation { step.previousStart } else { nil }
    }

    /// The token that the call retires, if any.
    var retirement: TokenRetirement<Bytes>? {
        switch operation {
        case .settle(_, _, _, let retirement, _): retirement
        case .retire(_, let retirement): retirement
        case .settleStart(_, _, let retirement): retirement
        default: nil
        }
    }

    var heldCommand: Bytes? {
        switch operation {
        case .hold(_, let command, _): command
        case .holdStart(_, let command): command
        default: nil
        }
    }

    var holdsAlert: Bool {
        if case .hold(_, _, true) = operation { true } else { false }
    }
}
