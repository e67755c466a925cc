import Foundation
import Glibc

extension Pipe {
    /// Fills the pipe, so that the next write waits for a reader.
    public func fill() {
        let descriptor = fileHandleForWriting.fileDescriptor
        let flags = fcntl(descriptor, F_GETFL)
        _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK)
        let page = [UInt8](repeating: UInt8(ascii: " "), count: Int(sysconf(Int32(_SC_PAGESIZE))))
        while Glibc.write(descriptor, page, page.count) > 0 {}
        _ = fcntl(descriptor, F_SETFL, flags)
    }
}
