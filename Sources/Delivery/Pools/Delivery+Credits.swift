/// Takes and returns credits, and begins the activities that wait for them. A returned credit may begin such activities
/// (`beginActivitiesAwaitingCredit`). This cannot recurse endlessly, because an activity that waits for a credit has
/// none to return.
extension Delivery {
    /// Takes a credit of the activity's pool, or makes the activity wait for one. Returns whether a credit was taken.
    /// Frees no activity, so the caller may still use `activity`.
    mutating func takeCreditOrWait(for activity: ActivityIndex, now: Moment) -> Bool {
        let poolKey = pools.poolKey(of: activities[activity].appIndex, activities[activity].poolKind)
        guard pools.takeCredit(of: poolKey) else {
            activities.enter(activity, .awaitingCredit)
            pools.appendActivityAwaitingCredit(activity, of: poolKey, now: now)
            return false
        }
        activities[activity].poolKindOfCredit = poolKey.kind
        return true
    }

    /// Moves the activity's credit to `pool`, the pool of its current command, and begins activities that wait for a
    /// credit of the old pool. The two pools differ if the activity's environment was unknown, or another one, when the
    /// credit was taken. The caller may still use `activity`.
    ///
    /// - Returns: false if `pool` has no free credit. The activity then keeps the credit that it has.
    @inline(__always)
    mutating func moveCredit(of activity: ActivityIndex, to pool: PoolTarget, now: Moment) -> Bool {
        let poolKey = PoolKey(pool)
        activities[activity].poolKind = poolKey.kind
        return activities[activity].poolKindOfCredit == poolKey.kind || moveCredit(of: activity, to: poolKey, now: now)
    }

    /// Moves the activity's credit to another pool. Returns whether that pool had a free credit; if not, nothing
    /// changes.
    private mutating func moveCredit(of activity: ActivityIndex, to poolKey: PoolKey, now: Moment) -> Bool {
        let previousKey = PoolKey(appIndex: poolKey.appIndex, kind: activities[activity].poolKindOfCredit)
        guard pools.moveCredit(from: previousKey, to: poolKey) else { return false }
        activities[activity].poolKindOfCredit = poolKey.kind
        beginActivitiesAwaitingCredit(of: previousKey, now: now)
        return true
    }

    /// Returns the activity's credit to its pool, and begins activities that wait for one. The caller may still use
    /// `activity`: only activities that wait for a credit may be freed.
    mutating func returnCredit(of activity: ActivityIndex, now: Moment) {
        let poolKey = PoolKey(
            appIndex: activities[activity].appIndex,
            kind: activities[activity].poolKindOfCredit
        )
        pools.returnCredit(of: poolKey)
        beginActivitiesAwaitingCredit(of: poolKey, now: now)
    }

    /// Begins activities that wait for a credit of this pool. Frees those of them that have no command to send any
    /// more, for example because all have expired. Frees no other activity.
    mutating func beginActivitiesAwaitingCredit(of poolKey: PoolKey, now: Moment) {
        // An activity whose commands have expired takes no credit. So the loop continues until all free credits are
        // taken or no activity waits.
        while let activity = pools.popActivityForFreeCredit(of: poolKey) {
            precondition(activities[activity].phase == .awaitingCredit)
            if activities[activity].currentCommand != .null {
                retryCurrentCommand(of: activity, now: now)
            } else {
                activities.enter(activity, .idle)
                beginNextCommand(of: activity, now: now)
            }
        }
    }
}
