/// The two values of `apns-priority` that Apple allows in a push to a Live Activity (Apple, "Sending notification
/// requests to APNs", and "Starting and updating Live Activities with ActivityKit push notifications").
public enum PushPriority {
    /// APNs may deliver the push later, to save power on the device. The push does not count against the phone's
    /// budget.
    @inlinable public static var low: UInt8 { 5 }
    /// APNs delivers the push at once. The push counts against the phone's budget for the activity; ``Policy/budget``
    /// imitates that budget.
    @inlinable public static var high: UInt8 { 10 }

    @inlinable
    public static func isValid(_ priority: UInt8) -> Bool { priority == low || priority == high }
}
