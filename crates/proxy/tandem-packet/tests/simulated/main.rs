//! Packet mode on a simulated link: hosts, links and middleboxes of `tandem-netsim`, virtual time.
//! `../README.md` says what each file holds it to.

mod support;

mod client_certificates;
mod client_filter;
mod compare;
mod conformance;
mod faults_closing;
mod faults_flows;
mod faults_hold;
mod faults_link;
mod faults_options;
mod faults_overlaps;
mod faults_proxy;
mod faults_tls;
mod gains;
mod iridium;
mod mcveety;
mod middleboxes;
mod random;
mod repeats;
mod scenarios;
mod session_tickets;
mod versions;
