//! The API called in process, over a real store and a gateway that takes what
//! the store holds.

#![cfg(test)]

mod access;
mod audit;
mod auth;
mod catalog;
mod described;
mod events;
mod explain;
mod fixture;
mod grants;
mod openapi;
mod pages;
mod paging;
mod people;
mod policies;
mod serve;
mod servers;
