/// The state of a Lock Screen, for a page that shows thousands of phones.
enum ScreenState: UInt8 {
    /// The phone has had no activity, or its app was removed.
    case empty
    case active
    /// The activity is active, but past its stale date.
    case stale
    /// The activity has ended, but is still on the Lock Screen.
    case ended
    /// The activity is off the Lock Screen.
    case gone
    /// The phone is offline.
    case offline

    var name: String { "\(self)" }
}
